// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/slice.h"

/* Reads a slice from argument `i`: one element if `single`, otherwise a range. */
static const char *read_slice(const etd_call *call, uint32_t i, const etd_tensor *tensor, bool single,
                              etd_slice *slice) {
    return single ? etd_arg_select(call, i, tensor, slice) : etd_arg_slice(call, i, tensor, slice);
}

/* Copies a slice, read from argument 1 on. */
static const char *copy_from(const etd_call *call, uint32_t out_at, bool single) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, out_at);
    etd_slice slice;
    if (input == NULL || !etd_is_type(out, input->dtype)) {
        return "input and output differ in type";
    }
    const char *refusal = read_slice(call, 1, input, single, &slice);
    if (refusal != NULL) {
        return refusal;
    }
    return etd_copy_slice(input, &slice, single, out) ? NULL : "invalid output size";
}

/* slice_copy(input, dim, start?, end?, step, *, out) */
static const char *slice_copy(const etd_call *call) {
    return copy_from(call, 5, false);
}

/* select_copy(input, dim, index, *, out) */
static const char *select_copy(const etd_call *call) {
    return copy_from(call, 3, true);
}

/* narrow_copy(input, dim, start, length, *, out) */
static const char *narrow_copy(const etd_call *call) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 4);
    etd_slice slice = {.step = 1};
    if (input == NULL || !etd_is_type(out, input->dtype)) {
        return "input and output differ in type";
    }
    if (!etd_arg_dim(call, 1, input->ndim, &slice.dim)) {
        return "invalid dim";
    }
    const int32_t size = input->sizes[slice.dim];
    if (!etd_arg_int(call, 2, -size, size, &slice.first)) {
        return "invalid start";
    }
    slice.first += slice.first < 0 ? size : 0;
    if (!etd_arg_int(call, 3, 0, size - slice.first, &slice.count)) {
        return "invalid length";
    }
    return etd_copy_slice(input, &slice, false, out) ? NULL : "invalid output size";
}

/* Copies the input and replaces a slice, read from argument 2 on, by src. */
static const char *scatter_to(const etd_call *call, uint32_t out_at, bool single) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    const etd_tensor *source = etd_arg_tensor(call, 1);
    etd_tensor *out = etd_arg_out(call, out_at);
    etd_slice slice;
    etd_tensor expected = {0};
    if (input == NULL || !etd_is_type(source, input->dtype) || !etd_is_type(out, input->dtype)) {
        return "input, src and output differ in type";
    }
    const char *refusal = read_slice(call, 2, input, single, &slice);
    if (refusal != NULL) {
        return refusal;
    }
    expected.ndim = (uint8_t)etd_slice_sizes(input, &slice, single, expected.sizes);
    if (!etd_same_shape(source, &expected)) {
        return "src and slice differ in size";
    }
    if (!etd_resize_like(out, input)) {
        return "invalid output size";
    }
    etd_walk from = {0};
    etd_walk to = etd_walk_slice(out, &slice);
    etd_walk_add_dims(&from, source, source->ndim);
    etd_copy_in_order(input, out);
    etd_copy_along(source, &from, out, &to);
    return NULL;
}

/* slice_scatter(input, src, dim, start?, end?, step, *, out) */
static const char *slice_scatter(const etd_call *call) {
    return scatter_to(call, 6, false);
}

/* select_scatter(input, src, dim, index, *, out) */
static const char *select_scatter(const etd_call *call) {
    return scatter_to(call, 4, true);
}

ETD_ATEN_KERNEL(narrow_copy, "narrow_copy", "out", 5, narrow_copy)

const etd_kernel etd_aten_slice_copy = {"aten::slice_copy", "Tensor_out", "native_call_slice_copy.Tensor_out",
                                        6, slice_copy};
const etd_kernel etd_aten_select_copy = {"aten::select_copy", "int_out", "native_call_select_copy.int_out", 4,
                                         select_copy};
const etd_kernel etd_aten_slice_scatter = {"aten::slice_scatter", "out", "native_call_slice_scatter.out", 7,
                                           slice_scatter};
const etd_kernel etd_aten_select_scatter = {"aten::select_scatter", "out", "native_call_select_scatter.out",
                                            5, select_scatter};
