// SPDX-License-Identifier: Apache-2.0
#include "arguments.h"

#include <string.h>

#include "etd_bytes.h"

static const etd_value *argument(const etd_call *call, uint32_t i) {
    return &call->values[call->args[i]];
}

etd_value *etd_arg_result(const etd_call *call, uint32_t i) {
    etd_value *value = &call->values[call->args[i]];
    return value->kind <= ETD_VALUE_DOUBLE ? value : NULL;
}

static const etd_tensor *tensor_of(const etd_value *value) {
    return value->kind == ETD_VALUE_TENSOR && value->as.tensor->data != NULL ? value->as.tensor : NULL;
}

const etd_tensor *etd_arg_tensor(const etd_call *call, uint32_t i) {
    return tensor_of(argument(call, i));
}

etd_tensor *etd_arg_out(const etd_call *call, uint32_t i) {
    const etd_tensor *tensor = etd_arg_tensor(call, i);
    return tensor != NULL && !tensor->constant ? argument(call, i)->as.tensor : NULL;
}

bool etd_arg_is_none(const etd_call *call, uint32_t i) {
    return argument(call, i)->kind == ETD_VALUE_NONE;
}

bool etd_arg_bool(const etd_call *call, uint32_t i, bool *value) {
    if (argument(call, i)->kind != ETD_VALUE_BOOL) {
        return false;
    }
    *value = argument(call, i)->as.boolean;
    return true;
}

static bool int_within(const etd_value *value, int32_t min, int32_t max, int32_t *number) {
    if (value->kind != ETD_VALUE_INT || value->as.integer < min || value->as.integer > max) {
        return false;
    }
    *number = (int32_t)value->as.integer;
    return true;
}

bool etd_arg_int(const etd_call *call, uint32_t i, int32_t min, int32_t max, int32_t *value) {
    return int_within(argument(call, i), min, max, value);
}

bool etd_arg_int64(const etd_call *call, uint32_t i, int64_t *value) {
    if (argument(call, i)->kind != ETD_VALUE_INT) {
        return false;
    }
    *value = argument(call, i)->as.integer;
    return true;
}

bool etd_arg_is_text(const etd_call *call, uint32_t i, const char *text) {
    const etd_value *value = argument(call, i);
    return value->kind == ETD_VALUE_STRING && value->as.string.length == strlen(text) &&
           memcmp(value->as.string.bytes, text, value->as.string.length) == 0;
}

bool etd_arg_number(const etd_call *call, uint32_t i, double *value) {
    const etd_value *number = argument(call, i);
    switch (number->kind) {
    case ETD_VALUE_INT:
        *value = (double)number->as.integer;
        return true;
    case ETD_VALUE_DOUBLE:
        *value = number->as.number;
        return true;
    default:
        return false;
    }
}

bool etd_arg_float(const etd_call *call, uint32_t i, float *value) {
    int32_t integer;
    double number;
    if (etd_arg_int(call, i, INT32_MIN, INT32_MAX, &integer)) {
        *value = (float)integer; /* a small CPU has no instructions for double */
        return true;
    }
    if (!etd_arg_number(call, i, &number)) {
        return false;
    }
    *value = (float)number;
    return true;
}

static uint8_t count_from_first(int32_t dim, uint8_t ndim) {
    return (uint8_t)(dim < 0 ? dim + ndim : dim);
}

bool etd_arg_dim(const etd_call *call, uint32_t i, uint8_t ndim, uint8_t *dim) {
    int32_t number;
    if (!etd_arg_int(call, i, -(int32_t)ndim, (int32_t)ndim - 1, &number)) {
        return false;
    }
    *dim = count_from_first(number, ndim);
    return true;
}

bool etd_arg_wrapped_dim(const etd_call *call, uint32_t i, uint8_t ndim, uint8_t *dim) {
    return etd_arg_dim(call, i, ndim > 0 ? ndim : 1, dim);
}

bool etd_arg_dims(const etd_call *call, uint32_t i, uint8_t ndim, uint8_t dims[ETD_MAX_DIMS],
                  uint8_t *count) {
    const etd_value *list = argument(call, i);
    uint32_t named = 0;
    if (list->kind != ETD_VALUE_INT_LIST || list->as.list.count > ndim) {
        return false;
    }
    for (uint32_t item = 0; item < list->as.list.count; item++) {
        int32_t number;
        if (!etd_arg_list_int(call, i, item, -(int32_t)ndim, (int32_t)ndim - 1, &number)) {
            return false;
        }
        dims[item] = count_from_first(number, ndim);
        if ((named & (1u << dims[item])) != 0) {
            return false;
        }
        named |= 1u << dims[item];
    }
    *count = (uint8_t)list->as.list.count;
    return true;
}

uint32_t etd_arg_list_count(const etd_call *call, uint32_t i) {
    const etd_value *list = argument(call, i);
    bool is_list = list->kind == ETD_VALUE_INT_LIST || list->kind == ETD_VALUE_TENSOR_LIST;
    return is_list ? list->as.list.count : UINT32_MAX;
}

bool etd_arg_list_int(const etd_call *call, uint32_t i, uint32_t item, int32_t min, int32_t max,
                      int32_t *value) {
    const etd_value *list = argument(call, i);
    if (list->kind != ETD_VALUE_INT_LIST || item >= list->as.list.count) {
        return false;
    }
    uint64_t number = etd_get_u64(list->as.list.items + 8u * item);
    return number < call->value_count && int_within(&call->values[number], min, max, value);
}

bool etd_arg_view_sizes(const etd_call *call, uint32_t i, const etd_tensor *input,
                        int32_t sizes[ETD_MAX_DIMS], uint32_t *ndim) {
    const uint32_t numel = etd_numel(input);
    uint64_t known = 1;
    int32_t *unknown = NULL;
    *ndim = etd_arg_list_count(call, i);
    if (*ndim > ETD_MAX_DIMS) {
        return false;
    }
    for (uint32_t d = 0; d < *ndim; d++) {
        if (!etd_arg_list_int(call, i, d, -1, INT32_MAX, &sizes[d]) || (sizes[d] < 0 && unknown != NULL)) {
            return false;
        }
        unknown = sizes[d] < 0 ? &sizes[d] : unknown;
        known *= sizes[d] < 0 ? 1u : (uint32_t)sizes[d];
        if (known > INT32_MAX) {
            return false;
        }
    }
    if (unknown != NULL && known != 0) {
        *unknown = (int32_t)(numel / (uint32_t)known);
        known *= (uint32_t)*unknown;
    }
    return known == numel && (unknown == NULL || *unknown >= 0);
}

/* Returns the value of an item of a tensor list, or NULL. */
static const etd_value *listed(const etd_call *call, uint32_t i, uint32_t item) {
    const etd_value *list = argument(call, i);
    if (list->kind != ETD_VALUE_TENSOR_LIST || item >= list->as.list.count) {
        return NULL;
    }
    const uint32_t number = etd_get_u32(list->as.list.items + 4u * item);
    return number < call->value_count ? &call->values[number] : NULL;
}

const etd_tensor *etd_arg_list_tensor(const etd_call *call, uint32_t i, uint32_t item) {
    const etd_value *value = listed(call, i, item);
    return value != NULL ? tensor_of(value) : NULL;
}

etd_tensor *etd_arg_list_out(const etd_call *call, uint32_t i, uint32_t item) {
    const etd_tensor *tensor = etd_arg_list_tensor(call, i, item);
    return tensor != NULL && !tensor->constant ? listed(call, i, item)->as.tensor : NULL;
}

bool etd_arg_list_is_none(const etd_call *call, uint32_t i, uint32_t item) {
    const etd_value *list = argument(call, i);
    return list->kind == ETD_VALUE_TENSOR_LIST && item < list->as.list.count &&
           etd_get_u32(list->as.list.items + 4u * item) == UINT32_MAX;
}

bool etd_arg_list_float(const etd_call *call, uint32_t i, uint32_t item, double *value) {
    const etd_value *list = argument(call, i);
    if (list->kind != ETD_VALUE_DOUBLE_LIST || item >= list->as.list.count) {
        return false;
    }
    const uint64_t bits = etd_get_u64(list->as.list.items + 8u * item);
    memcpy(value, &bits, sizeof bits);
    return true;
}

bool etd_arg_pair(const etd_call *call, uint32_t i, int32_t min, int32_t max, int32_t pair[2]) {
    const etd_value *list = argument(call, i);
    if (list->kind != ETD_VALUE_INT_LIST || list->as.list.count < 1 || list->as.list.count > 2) {
        return false;
    }
    return etd_arg_list_int(call, i, 0, min, max, &pair[0]) &&
           etd_arg_list_int(call, i, list->as.list.count - 1u, min, max, &pair[1]);
}

uint32_t etd_numel(const etd_tensor *tensor) {
    uint32_t numel = 1;
    for (uint32_t d = 0; d < tensor->ndim; d++) {
        numel *= (uint32_t)tensor->sizes[d];
    }
    return numel;
}

bool etd_is_type(const etd_tensor *tensor, uint8_t dtype) {
    return tensor != NULL && tensor->dtype == dtype;
}

bool etd_is(const etd_tensor *tensor, uint8_t dtype, uint8_t ndim) {
    return etd_is_type(tensor, dtype) && tensor->ndim == ndim && tensor->nbytes != 0;
}

bool etd_is_batch(const etd_tensor *tensor, uint8_t dtype, uint8_t ndim) {
    if (!etd_is_type(tensor, dtype) || tensor->ndim != ndim) {
        return false;
    }
    for (uint32_t d = 1; d < ndim; d++) {
        if (tensor->sizes[d] == 0) {
            return false;
        }
    }
    return true;
}

bool etd_has_elements(const etd_tensor *tensor, uint8_t dtype, int32_t count) {
    return etd_is_type(tensor, dtype) && count >= 0 && etd_numel(tensor) == (uint32_t)count &&
           etd_is_contiguous(tensor);
}

bool etd_same_layout(const etd_tensor *a, const etd_tensor *b) {
    if (a->ndim != b->ndim) {
        return false;
    }
    for (uint32_t d = 0; d < a->ndim; d++) {
        /* The stride of a dimension of size 1 does not matter. */
        if (a->sizes[d] != b->sizes[d] || (a->sizes[d] > 1 && a->strides[d] != b->strides[d])) {
            return false;
        }
    }
    return true;
}

bool etd_same_shape(const etd_tensor *a, const etd_tensor *b) {
    for (uint32_t d = 0; d < a->ndim && d < b->ndim; d++) {
        if (a->sizes[d] != b->sizes[d]) {
            return false;
        }
    }
    return a->ndim == b->ndim;
}

bool etd_is_contiguous(const etd_tensor *tensor) {
    int32_t stride = 1;
    for (uint32_t d = tensor->ndim; d-- > 0;) {
        if (tensor->sizes[d] != 1 && tensor->strides[d] != stride) {
            return false;
        }
        stride *= tensor->sizes[d];
    }
    return true;
}

bool etd_resize_like(etd_tensor *out, const etd_tensor *input) {
    return etd_resize(out, input->sizes, input->ndim);
}

bool etd_take_layout(etd_tensor *out, const etd_tensor *input) {
    return etd_resize_like(out, input) && etd_same_layout(input, out);
}

bool etd_broadcast_shape(etd_tensor *shape, const etd_tensor *tensor) {
    const uint32_t added = tensor->ndim > shape->ndim ? (uint32_t)tensor->ndim - shape->ndim : 0u;
    for (uint32_t d = shape->ndim; added > 0 && d-- > 0;) {
        shape->sizes[d + added] = shape->sizes[d];
    }
    for (uint32_t d = 0; d < added; d++) {
        shape->sizes[d] = 1;
    }
    shape->ndim = (uint8_t)(shape->ndim + added);
    int32_t *sizes = shape->sizes + (shape->ndim - tensor->ndim);
    for (uint32_t d = 0; d < tensor->ndim; d++) {
        if (sizes[d] != tensor->sizes[d] && sizes[d] != 1 && tensor->sizes[d] != 1) {
            return false;
        }
        sizes[d] = sizes[d] == 1 ? tensor->sizes[d] : sizes[d];
    }
    return true;
}

bool etd_resize_broadcast(etd_tensor *out, const etd_tensor *a, const etd_tensor *b) {
    etd_tensor shape = {0};
    return etd_broadcast_shape(&shape, a) && etd_broadcast_shape(&shape, b) && etd_resize_like(out, &shape);
}
