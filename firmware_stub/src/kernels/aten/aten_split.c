// SPDX-License-Identifier: Apache-2.0
/* Splits a tensor along a dimension, and stacks tensors along a new one. */
#include "../kernels.h"
#include "../support/slice.h"

/* Returns the length of part `i`, or -1 if the arguments are invalid. */
typedef int32_t (*etd_part_length)(const etd_call *call, uint32_t i, int32_t left);

static int32_t listed_length(const etd_call *call, uint32_t i, int32_t left) {
    int32_t length;
    return etd_arg_list_int(call, 1, i, 0, left, &length) ? length : -1;
}

/* All parts have the same length; the last may be shorter. */
static int32_t common_length(const etd_call *call, uint32_t i, int32_t left) {
    int32_t length;
    (void)i;
    if (!etd_arg_int(call, 1, 1, INT32_MAX, &length)) {
        return -1;
    }
    return length < left ? length : left;
}

static int32_t single_length(const etd_call *call, uint32_t i, int32_t left) {
    (void)call;
    (void)i;
    return left > 0 ? 1 : -1;
}

/* A split of the input into the outputs of argument `out`. */
typedef struct {
    const etd_tensor *input;
    uint32_t out;
    etd_part_length length;
    bool drop; /* remove the dimension */
} etd_split;

/* Resizes each output, or copies to it. All are resized first, so that nothing is written if one is invalid.
 */
static const char *each_part(const etd_call *call, const etd_split *split, etd_slice slice, bool copies) {
    const uint32_t parts = etd_arg_list_count(call, split->out);
    const int32_t size = split->input->sizes[slice.dim];
    for (uint32_t i = 0; i < parts; i++) {
        etd_tensor *out = etd_arg_list_out(call, split->out, i);
        int32_t sizes[ETD_MAX_DIMS];
        slice.count = split->length(call, i, size - slice.first);
        if (slice.count < 0) {
            return "invalid sizes of the parts";
        }
        if (!etd_is_type(out, split->input->dtype) ||
            !etd_resize(out, sizes, etd_slice_sizes(split->input, &slice, split->drop, sizes))) {
            return "invalid type or size of an output";
        }
        if (copies) {
            (void)etd_copy_slice(split->input, &slice, split->drop, out);
        }
        slice.first += slice.count;
    }
    return slice.first == size ? NULL : "invalid the sizes do not add up to the dimension";
}

static const char *run(const etd_call *call, uint32_t dim_at, etd_part_length length, bool drop) {
    const etd_split split = {etd_arg_tensor(call, 0), dim_at + 1, length, drop};
    etd_slice slice = {.step = 1};
    if (split.input == NULL || !etd_arg_dim(call, dim_at, split.input->ndim, &slice.dim)) {
        return "invalid input or dim";
    }
    if (etd_arg_list_count(call, split.out) == UINT32_MAX) {
        return "missing list of outputs";
    }
    const char *refusal = each_part(call, &split, slice, false);
    return refusal != NULL ? refusal : each_part(call, &split, slice, true);
}

/* split_with_sizes_copy(input, split_sizes, dim, *, out[]) */
static const char *split_with_sizes(const etd_call *call) {
    const uint32_t sizes = etd_arg_list_count(call, 1);
    return sizes == etd_arg_list_count(call, 3) ? run(call, 2, listed_length, false)
                                                : "invalid number of outputs";
}

/* split_copy(input, split_size, dim, *, out[]) */
static const char *split(const etd_call *call) {
    return run(call, 2, common_length, false);
}

/* unbind_copy(input, dim, *, out[]) */
static const char *unbind(const etd_call *call) {
    return run(call, 1, single_length, true);
}

/* Returns true if all tensors of the list have the type and shape of the first. */
static bool are_alike(const etd_call *call, const etd_tensor *first, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        const etd_tensor *tensor = etd_arg_list_tensor(call, 0, i);
        if (!etd_is_type(tensor, first->dtype) || !etd_same_shape(tensor, first)) {
            return false;
        }
    }
    return true;
}

/* stack(tensors, dim, *, out) */
static const char *stack(const etd_call *call) {
    const etd_tensor *first = etd_arg_list_tensor(call, 0, 0);
    etd_tensor *out = etd_arg_out(call, 2);
    const uint32_t count = etd_arg_list_count(call, 0);
    etd_slice slice = {.step = 1, .count = 1};
    int32_t sizes[ETD_MAX_DIMS];
    if (first == NULL || !etd_is_type(out, first->dtype) || !are_alike(call, first, count)) {
        return "tensors differ in type or size";
    }
    if (out->ndim != first->ndim + 1u || !etd_arg_dim(call, 1, out->ndim, &slice.dim)) {
        return "invalid dim or output size";
    }
    for (uint32_t d = 0; d < out->ndim; d++) {
        sizes[d] = d == slice.dim ? (int32_t)count : first->sizes[d > slice.dim ? d - 1 : d];
    }
    if (!etd_resize(out, sizes, out->ndim)) {
        return "invalid output size";
    }
    for (; slice.first < (int32_t)count; slice.first++) {
        const etd_tensor *tensor = etd_arg_list_tensor(call, 0, (uint32_t)slice.first);
        etd_walk from = {0};
        etd_walk to = etd_walk_slice(out, &slice);
        etd_walk_add_dims(&from, tensor, tensor->ndim);
        etd_copy_along(tensor, &from, out, &to);
    }
    return NULL;
}

const etd_kernel etd_aten_split_with_sizes = {"aten::split_with_sizes_copy", "out",
                                              "native_call_split_with_sizes_copy.out", 4, split_with_sizes};
const etd_kernel etd_aten_split = {"aten::split_copy", "Tensor_out", "native_call_split_copy.Tensor_out", 4,
                                   split};
const etd_kernel etd_aten_unbind = {"aten::unbind_copy", "int_out", "native_call_unbind_copy.int_out", 3,
                                    unbind};
const etd_kernel etd_aten_stack = {"aten::stack", "out", "native_call_stack.out", 3, stack};
