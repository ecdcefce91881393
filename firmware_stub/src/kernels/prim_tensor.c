/* What a program asks of a tensor's shape rather than of its elements. ExecuTorch traces no event for these.
 */
#include "kernels.h"
#include "number.h"

static const char *give(const et_call *call, uint32_t i, et_value number) {
    et_value *result = et_arg_result(call, i);
    if (result == NULL) {
        return "the result is not a number";
    }
    *result = number;
    return NULL;
}

static const char *give_int(const et_call *call, uint32_t i, int64_t number) {
    return give(call, i, (et_value){.kind = ET_VALUE_INT, .as.integer = number});
}

/* sym_size(self, dim) */
static const char *sym_size(const et_call *call) {
    const et_tensor *self = et_arg_tensor(call, 0);
    uint8_t dim;
    if (self == NULL || !et_arg_dim(call, 1, self->ndim, &dim)) {
        return "dim";
    }
    return give_int(call, 2, self->sizes[dim]);
}

/* sym_numel(self) */
static const char *sym_numel(const et_call *call) {
    const et_tensor *self = et_arg_tensor(call, 0);
    return self == NULL ? "no tensor" : give_int(call, 1, et_numel(self));
}

/* _local_scalar_dense(self): the only element */
static const char *local_scalar(const et_call *call) {
    const et_tensor *self = et_arg_tensor(call, 0);
    if (!et_is_numeric(self) || et_numel(self) != 1) {
        return "not one number";
    }
    const et_number number = et_load_number(self, 0);
    if (self->dtype == ET_BOOL) {
        return give(call, 1, (et_value){.kind = ET_VALUE_BOOL, .as.boolean = number.integer != 0});
    }
    if (number.is_real) {
        return give(call, 1, (et_value){.kind = ET_VALUE_DOUBLE, .as.number = number.real});
    }
    return give_int(call, 1, number.integer);
}

/* et_view(self, size, out): the output is the input's memory under another shape. */
static const char *view(const et_call *call) {
    const et_tensor *self = et_arg_tensor(call, 0);
    const et_value *result = &call->values[call->args[2]];
    et_tensor *out = result->kind == ET_VALUE_TENSOR ? result->as.tensor : NULL;
    int32_t sizes[ET_MAX_DIMS];
    uint32_t ndim;
    if (self == NULL || out == NULL || !et_is_type(out, self->dtype)) {
        return "input and output differ in type";
    }
    if (!et_arg_view_sizes(call, 1, self, sizes, &ndim)) {
        return "size";
    }
    if (!et_resize(out, sizes, ndim)) {
        return "output size";
    }
    if (!et_is_contiguous(self) || !et_is_contiguous(out)) {
        return "only contiguous tensors";
    }
    out->data = self->data;
    out->capacity = self->capacity; /* it may not grow beyond what it shares */
    out->constant = self->constant;
    return NULL;
}

const et_kernel et_prim_sym_size = {"aten::sym_size", "int", NULL, 3, sym_size};
const et_kernel et_prim_sym_numel = {"aten::sym_numel", "", NULL, 2, sym_numel};
const et_kernel et_prim_local_scalar = {"aten::_local_scalar_dense", "", NULL, 2, local_scalar};
const et_kernel et_prim_view = {"executorch_prim::et_view", "default", NULL, 3, view};
