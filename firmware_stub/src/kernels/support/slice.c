// SPDX-License-Identifier: Apache-2.0
#include "slice.h"

/* Reads a position in a dimension. Negative positions count from its end; positions outside are clamped. */
static bool read_position(const etd_call *call, uint32_t i, int32_t size, int32_t absent, int32_t *position) {
    int64_t number = absent;
    if (!etd_arg_is_none(call, i) && !etd_arg_int64(call, i, &number)) {
        return false;
    }
    if (number < 0) {
        number += size;
    }
    *position = number < 0 ? 0 : number > size ? size : (int32_t)number;
    return true;
}

const char *etd_arg_slice(const etd_call *call, uint32_t i, const etd_tensor *tensor, etd_slice *slice) {
    int32_t end;
    if (!etd_arg_dim(call, i, tensor->ndim, &slice->dim)) {
        return "invalid dim";
    }
    const int32_t size = tensor->sizes[slice->dim];
    if (!read_position(call, i + 1, size, 0, &slice->first) ||
        !read_position(call, i + 2, size, size, &end) ||
        !etd_arg_int(call, i + 3, 1, INT32_MAX, &slice->step)) {
        return "invalid start, end or step";
    }
    const int32_t room = end - slice->first;
    slice->count = room <= 0 ? 0 : (room - 1) / slice->step + 1;
    return NULL;
}

const char *etd_arg_select(const etd_call *call, uint32_t i, const etd_tensor *tensor, etd_slice *slice) {
    *slice = (etd_slice){.step = 1, .count = 1};
    if (!etd_arg_dim(call, i, tensor->ndim, &slice->dim)) {
        return "invalid dim";
    }
    const int32_t size = tensor->sizes[slice->dim];
    if (!etd_arg_int(call, i + 1, -size, size - 1, &slice->first)) {
        return "invalid index";
    }
    slice->first += slice->first < 0 ? size : 0;
    return NULL;
}

uint32_t etd_slice_sizes(const etd_tensor *tensor, const etd_slice *slice, bool drop,
                         int32_t sizes[ETD_MAX_DIMS]) {
    uint32_t ndim = 0;
    for (uint32_t d = 0; d < tensor->ndim; d++) {
        if (d != slice->dim) {
            sizes[ndim++] = tensor->sizes[d];
        } else if (!drop) {
            sizes[ndim++] = slice->count;
        }
    }
    return ndim;
}

etd_walk etd_walk_slice(const etd_tensor *tensor, const etd_slice *slice) {
    etd_walk walk = {.offset = (uint32_t)slice->first * (uint32_t)tensor->strides[slice->dim]};
    for (uint32_t d = 0; d < tensor->ndim; d++) {
        const bool sliced = d == slice->dim;
        /* a step of one element means nothing, and could be larger than any stride */
        const int32_t step = sliced && slice->count > 1 ? slice->step : 1;
        etd_walk_add(&walk, sliced ? slice->count : tensor->sizes[d], tensor->strides[d] * step);
    }
    return walk;
}

bool etd_copy_slice(const etd_tensor *input, const etd_slice *slice, bool drop, etd_tensor *out) {
    etd_walk from = etd_walk_slice(input, slice);
    etd_walk to = {0};
    int32_t sizes[ETD_MAX_DIMS];
    if (!etd_resize(out, sizes, etd_slice_sizes(input, slice, drop, sizes))) {
        return false;
    }
    etd_walk_add_dims(&to, out, out->ndim);
    etd_copy_along(input, &from, out, &to);
    return true;
}
