#include "arguments.h"
#include "kernels.h"
#include "walk.h"

/* Adds a tensor's part of the output's dimension `dim` to `*total`, when the tensor fits. */
static bool add_part(const et_tensor *tensor, const et_tensor *out, uint8_t dim, int64_t *total) {
    if (!et_is_type(tensor, out->dtype) || tensor->ndim != out->ndim) {
        return false;
    }
    for (uint32_t d = 0; d < out->ndim; d++) {
        if (d != dim && tensor->sizes[d] != out->sizes[d]) {
            return false;
        }
    }
    *total += tensor->sizes[dim];
    return true;
}

/* cat(tensors, dim, *, out) */
static const char *cat(const et_call *call) {
    et_tensor *out = et_arg_out(call, 2);
    const uint32_t count = et_arg_list_count(call, 0);
    uint8_t dim;
    int64_t total = 0;
    if (out == NULL || !et_arg_dim(call, 1, out->ndim, &dim)) {
        return "output or dim";
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!add_part(et_arg_list_tensor(call, 0, i), out, dim, &total)) {
            return "a tensor of another type or size";
        }
    }
    if (total != out->sizes[dim]) {
        return "output size";
    }
    uint32_t start = 0;
    for (uint32_t i = 0; i < count; i++) {
        const et_tensor *tensor = et_arg_list_tensor(call, 0, i);
        et_walk from = {0};
        et_walk to = {.offset = start};
        et_walk_add_dims(&from, tensor, tensor->ndim);
        for (uint32_t d = 0; d < tensor->ndim; d++) {
            et_walk_add(&to, tensor->sizes[d], out->strides[d]);
        }
        et_copy_along(tensor, &from, out, &to);
        start += (uint32_t)tensor->sizes[dim] * (uint32_t)out->strides[dim];
    }
    return NULL;
}

const et_kernel et_aten_cat = {"aten::cat", "out", "native_call_cat.out", 3, cat};
