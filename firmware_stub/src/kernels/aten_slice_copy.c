// SPDX-License-Identifier: Apache-2.0
#include "arguments.h"
#include "kernels.h"
#include "walk.h"

/* Elements first, first + step, ... of one dimension. */
typedef struct {
    uint8_t dim;
    int32_t first;
    int32_t step;
    int32_t count;
} etd_slice;

/* Copies a slice that lies within the input; if `drop`, without its dimension. */
static const char *copy_slice(const etd_tensor *input, const etd_slice *slice, bool drop, etd_tensor *out) {
    etd_walk from = {.offset = (uint32_t)slice->first * (uint32_t)input->strides[slice->dim]};
    etd_walk to = {0};
    int32_t sizes[ETD_MAX_DIMS];
    uint32_t d = 0; /* of the output */
    for (uint32_t i = 0; i < input->ndim; i++) {
        const bool sliced = i == slice->dim;
        const int32_t size = sliced ? slice->count : input->sizes[i];
        if (sliced && drop) {
            continue;
        }
        sizes[d] = size;
        etd_walk_add(&from, size, sliced && size > 1 ? input->strides[i] * slice->step : input->strides[i]);
        d++;
    }
    if (!etd_resize(out, sizes, d)) {
        return "invalid output size";
    }
    etd_walk_add_dims(&to, out, out->ndim);
    etd_copy_along(input, &from, out, &to);
    return NULL;
}

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

/* slice_copy(input, dim, start?, end?, step, *, out) */
static const char *slice_copy(const etd_call *call) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 5);
    etd_slice slice;
    int32_t end;
    if (input == NULL || !etd_is_type(out, input->dtype)) {
        return "input and output differ in type";
    }
    if (!etd_arg_dim(call, 1, input->ndim, &slice.dim)) {
        return "invalid dim";
    }
    const int32_t size = input->sizes[slice.dim];
    if (!read_position(call, 2, size, 0, &slice.first) || !read_position(call, 3, size, size, &end) ||
        !etd_arg_int(call, 4, 1, INT32_MAX, &slice.step)) {
        return "invalid start, end or step";
    }
    const int32_t room = end - slice.first;
    slice.count = room <= 0 ? 0 : (room - 1) / slice.step + 1;
    return copy_slice(input, &slice, false, out);
}

/* select_copy(input, dim, index, *, out) */
static const char *select_copy(const etd_call *call) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 3);
    etd_slice slice = {.step = 1, .count = 1};
    if (input == NULL || !etd_is_type(out, input->dtype)) {
        return "input and output differ in type";
    }
    if (!etd_arg_dim(call, 1, input->ndim, &slice.dim)) {
        return "invalid dim";
    }
    const int32_t size = input->sizes[slice.dim];
    if (!etd_arg_int(call, 2, -size, size - 1, &slice.first)) {
        return "invalid index";
    }
    slice.first += slice.first < 0 ? size : 0;
    return copy_slice(input, &slice, true, out);
}

const etd_kernel etd_aten_slice_copy = {"aten::slice_copy", "Tensor_out", "native_call_slice_copy.Tensor_out",
                                        6, slice_copy};
const etd_kernel etd_aten_select_copy = {"aten::select_copy", "int_out", "native_call_select_copy.int_out", 4,
                                         select_copy};
