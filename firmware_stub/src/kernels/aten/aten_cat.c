// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/walk.h"

/* Adds a tensor's size in dimension `dim` to sizes[dim]. Returns false if its other sizes differ. */
static bool add_part(const etd_tensor *tensor, const etd_tensor *out, uint8_t dim, int32_t *sizes) {
    if (!etd_is_type(tensor, out->dtype) || tensor->ndim != out->ndim) {
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

/* Computes the output's sizes from those of all tensors. */
static bool add_parts(const etd_call *call, const etd_tensor *out, uint8_t dim, int32_t *sizes) {
    const etd_tensor *first = etd_arg_list_tensor(call, 0, 0);
    if (first == NULL || first->ndim != out->ndim) {
        return false;
    }
    memcpy(sizes, first->sizes, sizeof first->sizes);
    sizes[dim] = 0;
    for (uint32_t i = 0; i < etd_arg_list_count(call, 0); i++) {
        if (!add_part(etd_arg_list_tensor(call, 0, i), out, dim, sizes)) {
            return false;
        }
    }
    return true;
}

/* cat(tensors, dim, *, out) */
static const char *cat(const etd_call *call) {
    etd_tensor *out = etd_arg_out(call, 2);
    const uint32_t count = etd_arg_list_count(call, 0);
    int32_t sizes[ETD_MAX_DIMS];
    uint8_t dim;
    if (out == NULL || !etd_arg_dim(call, 1, out->ndim, &dim)) {
        return "invalid output or dim";
    }
    if (!add_parts(call, out, dim, sizes)) {
        return "tensors differ in type or size";
    }
    if (!etd_resize(out, sizes, out->ndim)) {
        return "invalid output size";
    }
    uint32_t start = 0;
    for (uint32_t i = 0; i < count; i++) {
        const etd_tensor *tensor = etd_arg_list_tensor(call, 0, i);
        etd_walk from = {0};
        etd_walk to = {.offset = start};
        etd_walk_add_dims(&from, tensor, tensor->ndim);
        for (uint32_t d = 0; d < tensor->ndim; d++) {
            etd_walk_add(&to, tensor->sizes[d], out->strides[d]);
        }
        etd_copy_along(tensor, &from, out, &to);
        start += (uint32_t)tensor->sizes[dim] * (uint32_t)out->strides[dim];
    }
    return NULL;
}

const etd_kernel etd_aten_cat = {"aten::cat", "out", "native_call_cat.out", 3, cat};
