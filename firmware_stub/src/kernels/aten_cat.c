#include <string.h>

#include "arguments.h"
#include "kernels.h"
#include "walk.h"

/* Adds a tensor's part of dimension `dim` to sizes[dim], when the tensor fits otherwise. */
static bool add_part(const et_tensor *tensor, const et_tensor *out, uint8_t dim, int32_t *sizes) {
    if (!et_is_type(tensor, out->dtype) || tensor->ndim != out->ndim) {
        return false;
    }
    for (uint32_t d = 0; d < out->ndim; d++) {
        if (d != dim && tensor->sizes[d] != sizes[d]) {
            return false;
        }
    }
    if (tensor->sizes[dim] > INT32_MAX - sizes[dim]) {
        return false;
    }
    sizes[dim] += tensor->sizes[dim];
    return true;
}

/* The output's sizes, from those of all tensors. */
static bool add_parts(const et_call *call, const et_tensor *out, uint8_t dim, int32_t *sizes) {
    const et_tensor *first = et_arg_list_tensor(call, 0, 0);
    if (first == NULL || first->ndim != out->ndim) {
        return false;
    }
    memcpy(sizes, first->sizes, sizeof first->sizes);
    sizes[dim] = 0;
    for (uint32_t i = 0; i < et_arg_list_count(call, 0); i++) {
        if (!add_part(et_arg_list_tensor(call, 0, i), out, dim, sizes)) {
            return false;
        }
    }
    return true;
}

/* cat(tensors, dim, *, out) */
static const char *cat(const et_call *call) {
    et_tensor *out = et_arg_out(call, 2);
    const uint32_t count = et_arg_list_count(call, 0);
    int32_t sizes[ET_MAX_DIMS];
    uint8_t dim;
    if (out == NULL || !et_arg_dim(call, 1, out->ndim, &dim)) {
        return "output or dim";
    }
    if (!add_parts(call, out, dim, sizes)) {
        return "a tensor of another type or size";
    }
    if (!et_resize(out, sizes, out->ndim)) {
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
