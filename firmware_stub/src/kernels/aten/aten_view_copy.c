// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/walk.h"

/* view_copy(input, size, *, out): the same elements in the order of their indexes, in another shape. */
static const char *view_copy(const etd_call *call) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 2);
    int32_t sizes[ETD_MAX_DIMS];
    uint32_t ndim;
    if (input == NULL || !etd_is_type(out, input->dtype)) {
        return "input and output differ in type";
    }
    if (!etd_arg_view_sizes(call, 1, input, sizes, &ndim)) {
        return "invalid size";
    }
    if (!etd_resize(out, sizes, ndim)) {
        return "invalid output size";
    }
    etd_copy_in_order(input, out);
    return NULL;
}

const etd_kernel etd_aten_view_copy = {"aten::view_copy", "out", "native_call_view_copy.out", 3, view_copy};
