// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/walk.h"

/* permute_copy(input, dims, *, out) */
static const char *permute_copy(const etd_call *call) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 2);
    uint8_t dims[ETD_MAX_DIMS];
    uint8_t count;
    int32_t sizes[ETD_MAX_DIMS];
    if (input == NULL || !etd_is_type(out, input->dtype)) {
        return "input and output differ in type";
    }
    if (!etd_arg_dims(call, 1, input->ndim, dims, &count) || count != input->ndim) {
        return "invalid dims";
    }
    etd_walk from = {0};
    etd_walk to = {0};
    for (uint32_t d = 0; d < count; d++) {
        sizes[d] = input->sizes[dims[d]];
        etd_walk_add(&from, input->sizes[dims[d]], input->strides[dims[d]]);
    }
    if (!etd_resize(out, sizes, count)) {
        return "invalid output size";
    }
    etd_walk_add_dims(&to, out, out->ndim);
    etd_copy_along(input, &from, out, &to);
    return NULL;
}

const etd_kernel etd_aten_permute_copy = {"aten::permute_copy", "out", "native_call_permute_copy.out", 3,
                                          permute_copy};

/* The same operator for quantized tensors, with another name for dims. */
const etd_kernel etd_cortex_m_transpose = {"cortex_m::transpose", "out", "native_call_transpose.out", 3,
                                           permute_copy};
