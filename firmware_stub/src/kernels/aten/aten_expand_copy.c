// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/walk.h"

/* Reads the output's sizes; -1 stands for the input's size in the same dimension. */
static bool read_sizes(const etd_call *call, const etd_tensor *input, uint32_t ndim, int32_t *sizes) {
    if (ndim > ETD_MAX_DIMS || ndim < input->ndim) {
        return false;
    }
    for (uint32_t d = 0; d < ndim; d++) {
        const int32_t least = d < ndim - input->ndim ? 0 : -1;
        if (!etd_arg_list_int(call, 1, d, least, INT32_MAX, &sizes[d])) {
            return false;
        }
        sizes[d] = sizes[d] < 0 ? input->sizes[d + input->ndim - ndim] : sizes[d];
    }
    return true;
}

/* expand_copy(input, size, *, implicit, out) */
static const char *expand_copy(const etd_call *call) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 3);
    const uint32_t ndim = etd_arg_list_count(call, 1);
    int32_t sizes[ETD_MAX_DIMS];
    int32_t strides[ETD_MAX_DIMS];
    etd_walk from = {0};
    etd_walk to = {0};
    if (input == NULL || !etd_is_type(out, input->dtype)) {
        return "input and output differ in type";
    }
    if (!read_sizes(call, input, ndim, sizes)) {
        return "invalid size";
    }
    if (!etd_resize(out, sizes, ndim) || !etd_broadcast_strides(input, out, strides)) {
        return "input does not broadcast to the output";
    }
    for (uint32_t d = 0; d < out->ndim; d++) {
        etd_walk_add(&from, out->sizes[d], strides[d]);
    }
    etd_walk_add_dims(&to, out, out->ndim);
    etd_copy_along(input, &from, out, &to);
    return NULL;
}

const etd_kernel etd_aten_expand_copy = {"aten::expand_copy", "out", "native_call_expand_copy.out", 4,
                                         expand_copy};
