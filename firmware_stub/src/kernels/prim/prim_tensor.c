// SPDX-License-Identifier: Apache-2.0
/* Operators on a tensor's shape. ExecuTorch does not trace them. */
#include <string.h>

#include "../kernels.h"
#include "../support/number.h"

static const char *give(const etd_call *call, uint32_t i, etd_value number) {
    etd_value *result = etd_arg_result(call, i);
    if (result == NULL) {
        return "the result is not a number";
    }
    *result = number;
    return NULL;
}

static const char *give_int(const etd_call *call, uint32_t i, int64_t number) {
    return give(call, i, (etd_value){.kind = ETD_VALUE_INT, .as.integer = number});
}

/* sym_size(self, dim) */
static const char *sym_size(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    uint8_t dim;
    if (self == NULL || !etd_arg_dim(call, 1, self->ndim, &dim)) {
        return "invalid dim";
    }
    return give_int(call, 2, self->sizes[dim]);
}

/* sym_numel(self) */
static const char *sym_numel(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    return self == NULL ? "not a tensor" : give_int(call, 1, etd_numel(self));
}

/* _local_scalar_dense(self): returns the only element */
static const char *local_scalar(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    if (!etd_is_numeric(self) || etd_numel(self) != 1) {
        return "not a single number";
    }
    const etd_number number = etd_load_number(self, 0);
    if (self->dtype == ETD_BOOL) {
        return give(call, 1, (etd_value){.kind = ETD_VALUE_BOOL, .as.boolean = number.integer != 0});
    }
    if (number.is_real) {
        return give(call, 1, (etd_value){.kind = ETD_VALUE_DOUBLE, .as.number = number.real});
    }
    return give_int(call, 1, number.integer);
}

/* et_view(self, size, out): the output is the input's memory under another shape. */
static const char *view(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    const etd_value *result = &call->values[call->args[2]];
    etd_tensor *out = result->kind == ETD_VALUE_TENSOR ? result->as.tensor : NULL;
    int32_t sizes[ETD_MAX_DIMS];
    uint32_t ndim;
    if (self == NULL || out == NULL || !etd_is_type(out, self->dtype)) {
        return "input and output differ in type";
    }
    if (!etd_arg_view_sizes(call, 1, self, sizes, &ndim)) {
        return "invalid size";
    }
    if (!etd_resize(out, sizes, ndim)) {
        return "invalid output size";
    }
    if (!etd_is_contiguous(self) || !etd_is_contiguous(out)) {
        return "supports only contiguous tensors";
    }
    out->data = self->data;
    out->capacity = self->capacity; /* it must not grow beyond the shared memory */
    out->constant = self->constant;
    return NULL;
}

/* et_copy_index(copy_to, copy_from, index): stacks what the steps of a loop compute. copy_to has grown to
 * index + 1 items afterwards. */
static const char *copy_index(const etd_call *call) {
    etd_tensor *to = etd_arg_out(call, 0);
    const etd_tensor *from = etd_arg_tensor(call, 1);
    int32_t sizes[ETD_MAX_DIMS];
    int32_t index;
    if (from == NULL || !etd_is_type(to, from->dtype) || from->ndim >= ETD_MAX_DIMS) {
        return "copy_to and copy_from differ in type";
    }
    if (!etd_arg_int(call, 2, 0, INT32_MAX - 1, &index)) {
        return "invalid index";
    }
    sizes[0] = index + 1;
    memcpy(sizes + 1, from->sizes, from->ndim * sizeof *sizes);
    if (!etd_resize(to, sizes, from->ndim + 1u)) {
        return "copy_to has no room for the item";
    }
    if (!etd_is_contiguous(to) || !etd_is_contiguous(from)) {
        return "supports only contiguous tensors";
    }
    memmove(to->data + (uint32_t)index * from->nbytes, from->data, from->nbytes);
    return NULL;
}

const etd_kernel etd_prim_copy_index = {"executorch_prim::et_copy_index", "tensor", NULL, 3, copy_index};
const etd_kernel etd_prim_sym_size = {"aten::sym_size", "int", NULL, 3, sym_size};
const etd_kernel etd_prim_sym_numel = {"aten::sym_numel", "", NULL, 2, sym_numel};
const etd_kernel etd_prim_local_scalar = {"aten::_local_scalar_dense", "", NULL, 2, local_scalar};
const etd_kernel etd_prim_view = {"executorch_prim::et_view", "default", NULL, 3, view};
