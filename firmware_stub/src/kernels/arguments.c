#include "arguments.h"

#include <string.h>

#include "et_bytes.h"

static const et_value *argument(const et_call *call, uint32_t i) {
    return &call->values[call->args[i]];
}

et_value *et_arg_result(const et_call *call, uint32_t i) {
    et_value *value = &call->values[call->args[i]];
    return value->kind <= ET_VALUE_DOUBLE ? value : NULL;
}

static const et_tensor *tensor_of(const et_value *value) {
    return value->kind == ET_VALUE_TENSOR && value->as.tensor->data != NULL ? value->as.tensor : NULL;
}

const et_tensor *et_arg_tensor(const et_call *call, uint32_t i) {
    return tensor_of(argument(call, i));
}

et_tensor *et_arg_out(const et_call *call, uint32_t i) {
    const et_tensor *tensor = et_arg_tensor(call, i);
    return tensor != NULL && !tensor->constant ? argument(call, i)->as.tensor : NULL;
}

bool et_arg_is_none(const et_call *call, uint32_t i) {
    return argument(call, i)->kind == ET_VALUE_NONE;
}

bool et_arg_bool(const et_call *call, uint32_t i, bool *value) {
    if (argument(call, i)->kind != ET_VALUE_BOOL) {
        return false;
    }
    *value = argument(call, i)->as.boolean;
    return true;
}

static bool int_within(const et_value *value, int32_t min, int32_t max, int32_t *number) {
    if (value->kind != ET_VALUE_INT || value->as.integer < min || value->as.integer > max) {
        return false;
    }
    *number = (int32_t)value->as.integer;
    return true;
}

bool et_arg_int(const et_call *call, uint32_t i, int32_t min, int32_t max, int32_t *value) {
    return int_within(argument(call, i), min, max, value);
}

bool et_arg_int64(const et_call *call, uint32_t i, int64_t *value) {
    if (argument(call, i)->kind != ET_VALUE_INT) {
        return false;
    }
    *value = argument(call, i)->as.integer;
    return true;
}

bool et_arg_is_text(const et_call *call, uint32_t i, const char *text) {
    const et_value *value = argument(call, i);
    return value->kind == ET_VALUE_STRING && value->as.string.length == strlen(text) &&
           memcmp(value->as.string.bytes, text, value->as.string.length) == 0;
}

bool et_arg_number(const et_call *call, uint32_t i, double *value) {
    const et_value *number = argument(call, i);
    switch (number->kind) {
    case ET_VALUE_INT:
        *value = (double)number->as.integer;
        return true;
    case ET_VALUE_DOUBLE:
        *value = number->as.number;
        return true;
    default:
        return false;
    }
}

static uint8_t count_from_first(int32_t dim, uint8_t ndim) {
    return (uint8_t)(dim < 0 ? dim + ndim : dim);
}

bool et_arg_dim(const et_call *call, uint32_t i, uint8_t ndim, uint8_t *dim) {
    int32_t number;
    if (!et_arg_int(call, i, -(int32_t)ndim, (int32_t)ndim - 1, &number)) {
        return false;
    }
    *dim = count_from_first(number, ndim);
    return true;
}

bool et_arg_dims(const et_call *call, uint32_t i, uint8_t ndim, uint8_t dims[ET_MAX_DIMS], uint8_t *count) {
    const et_value *list = argument(call, i);
    uint32_t named = 0;
    if (list->kind != ET_VALUE_INT_LIST || list->as.list.count > ndim) {
        return false;
    }
    for (uint32_t item = 0; item < list->as.list.count; item++) {
        int32_t number;
        if (!et_arg_list_int(call, i, item, -(int32_t)ndim, (int32_t)ndim - 1, &number)) {
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

uint32_t et_arg_list_count(const et_call *call, uint32_t i) {
    const et_value *list = argument(call, i);
    bool is_list = list->kind == ET_VALUE_INT_LIST || list->kind == ET_VALUE_TENSOR_LIST;
    return is_list ? list->as.list.count : UINT32_MAX;
}

bool et_arg_list_int(const et_call *call, uint32_t i, uint32_t item, int32_t min, int32_t max,
                     int32_t *value) {
    const et_value *list = argument(call, i);
    if (list->kind != ET_VALUE_INT_LIST || item >= list->as.list.count) {
        return false;
    }
    uint64_t number = et_get_u64(list->as.list.items + 8u * item);
    return number < call->value_count && int_within(&call->values[number], min, max, value);
}

bool et_arg_view_sizes(const et_call *call, uint32_t i, const et_tensor *input, int32_t sizes[ET_MAX_DIMS],
                       uint32_t *ndim) {
    const uint32_t numel = et_numel(input);
    uint64_t known = 1;
    int32_t *unknown = NULL;
    *ndim = et_arg_list_count(call, i);
    if (*ndim > ET_MAX_DIMS) {
        return false;
    }
    for (uint32_t d = 0; d < *ndim; d++) {
        if (!et_arg_list_int(call, i, d, -1, INT32_MAX, &sizes[d]) || (sizes[d] < 0 && unknown != NULL)) {
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

const et_tensor *et_arg_list_tensor(const et_call *call, uint32_t i, uint32_t item) {
    const et_value *list = argument(call, i);
    if (list->kind != ET_VALUE_TENSOR_LIST || item >= list->as.list.count) {
        return NULL;
    }
    const uint32_t number = et_get_u32(list->as.list.items + 4u * item);
    return number < call->value_count ? tensor_of(&call->values[number]) : NULL;
}

bool et_arg_pair(const et_call *call, uint32_t i, int32_t min, int32_t max, int32_t pair[2]) {
    const et_value *list = argument(call, i);
    if (list->kind != ET_VALUE_INT_LIST || list->as.list.count < 1 || list->as.list.count > 2) {
        return false;
    }
    return et_arg_list_int(call, i, 0, min, max, &pair[0]) &&
           et_arg_list_int(call, i, list->as.list.count - 1u, min, max, &pair[1]);
}

uint32_t et_numel(const et_tensor *tensor) {
    uint32_t numel = 1;
    for (uint32_t d = 0; d < tensor->ndim; d++) {
        numel *= (uint32_t)tensor->sizes[d];
    }
    return numel;
}

bool et_is_type(const et_tensor *tensor, uint8_t dtype) {
    return tensor != NULL && tensor->dtype == dtype;
}

bool et_is(const et_tensor *tensor, uint8_t dtype, uint8_t ndim) {
    return et_is_type(tensor, dtype) && tensor->ndim == ndim && tensor->nbytes != 0;
}

bool et_has_elements(const et_tensor *tensor, uint8_t dtype, int32_t count) {
    return et_is_type(tensor, dtype) && count >= 0 && et_numel(tensor) == (uint32_t)count &&
           et_is_contiguous(tensor);
}

bool et_same_layout(const et_tensor *a, const et_tensor *b) {
    if (a->ndim != b->ndim) {
        return false;
    }
    for (uint32_t d = 0; d < a->ndim; d++) {
        /* The stride of a dimension of one element says nothing. */
        if (a->sizes[d] != b->sizes[d] || (a->sizes[d] > 1 && a->strides[d] != b->strides[d])) {
            return false;
        }
    }
    return true;
}

bool et_same_shape(const et_tensor *a, const et_tensor *b) {
    for (uint32_t d = 0; d < a->ndim && d < b->ndim; d++) {
        if (a->sizes[d] != b->sizes[d]) {
            return false;
        }
    }
    return a->ndim == b->ndim;
}

bool et_is_contiguous(const et_tensor *tensor) {
    int32_t stride = 1;
    for (uint32_t d = tensor->ndim; d-- > 0;) {
        if (tensor->sizes[d] != 1 && tensor->strides[d] != stride) {
            return false;
        }
        stride *= tensor->sizes[d];
    }
    return true;
}

bool et_resize_like(et_tensor *out, const et_tensor *input) {
    return et_resize(out, input->sizes, input->ndim);
}

bool et_take_layout(et_tensor *out, const et_tensor *input) {
    return et_resize_like(out, input) && et_same_layout(input, out);
}

bool et_resize_broadcast(et_tensor *out, const et_tensor *a, const et_tensor *b) {
    const uint32_t ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    int32_t sizes[ET_MAX_DIMS];
    for (uint32_t back = 1; back <= ndim; back++) {
        const int32_t from_a = back <= a->ndim ? a->sizes[a->ndim - back] : 1;
        const int32_t from_b = back <= b->ndim ? b->sizes[b->ndim - back] : 1;
        if (from_a != from_b && from_a != 1 && from_b != 1) {
            return false;
        }
        sizes[ndim - back] = from_a == 1 ? from_b : from_a;
    }
    return et_resize(out, sizes, ndim);
}
