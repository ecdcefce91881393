// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/matmul.h"

/* Returns a contiguous tensor as a matrix; the last dimension is a row. */
static etd_matrix as_rows(const etd_tensor *tensor) {
    const int32_t columns = tensor->sizes[tensor->ndim - 1];
    return (etd_matrix){etd_out_floats(tensor), (int32_t)etd_numel(tensor) / columns, columns, columns, 1};
}

/* linear(input, weight, bias?, *, out): input times transposed weight plus bias */
static const char *linear(const etd_call *call) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    const etd_tensor *weight = etd_arg_tensor(call, 1);
    const etd_tensor *bias = etd_arg_tensor(call, 2);
    etd_tensor *out = etd_arg_out(call, 3);
    int32_t sizes[ETD_MAX_DIMS];
    if (!etd_is_type(input, ETD_FLOAT) || input->ndim == 0 || !etd_is(weight, ETD_FLOAT, 2) ||
        !etd_is_type(out, ETD_FLOAT) || !etd_is_contiguous(input)) {
        return "supports only contiguous float32";
    }
    if (input->sizes[input->ndim - 1] != weight->sizes[1]) {
        return "sizes do not match";
    }
    if (!etd_arg_is_none(call, 2) && !etd_has_elements(bias, ETD_FLOAT, weight->sizes[0])) {
        return "invalid bias";
    }
    for (uint32_t d = 0; d < input->ndim; d++) {
        sizes[d] = d + 1u == input->ndim ? weight->sizes[0] : input->sizes[d];
    }
    if (!etd_resize(out, sizes, input->ndim) || !etd_is_contiguous(out)) {
        return "invalid output size";
    }
    const etd_matrix x = as_rows(input);
    const etd_matrix y = as_rows(out);
    const etd_matrix w = {etd_out_floats(weight), weight->sizes[1], weight->sizes[0], weight->strides[1],
                          weight->strides[0]}; /* transposed */
    const etd_addend addend = {bias != NULL ? etd_floats(bias) : NULL, 0, 1, 1.0f, 1.0f};
    etd_multiply(&x, &w, bias != NULL ? &addend : NULL, &y);
    return NULL;
}

ETD_ATEN_KERNEL(linear, "linear", "out", ETD_IN_FLOAT32 + 4, linear)
