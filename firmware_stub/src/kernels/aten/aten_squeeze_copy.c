// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/walk.h"

/* Copies to the output with these sizes. */
static const char *copy_as(const etd_tensor *input, etd_tensor *out, const int32_t *sizes, uint32_t ndim) {
    if (!etd_resize(out, sizes, ndim)) {
        return "invalid output size";
    }
    etd_copy_in_order(input, out);
    return NULL;
}

static const char *read_tensors(const etd_call *call, const etd_tensor **input, etd_tensor **out) {
    *input = etd_arg_tensor(call, 0);
    *out = etd_arg_out(call, 2);
    return *input == NULL || !etd_is_type(*out, (*input)->dtype) ? "input and output differ in type" : NULL;
}

/* unsqueeze_copy(input, dim, *, out) */
static const char *unsqueeze(const etd_call *call) {
    const etd_tensor *input;
    etd_tensor *out;
    uint8_t dim;
    int32_t sizes[ETD_MAX_DIMS];
    const char *refusal = read_tensors(call, &input, &out);
    if (refusal != NULL) {
        return refusal;
    }
    if (out->ndim != input->ndim + 1u || !etd_arg_dim(call, 1, out->ndim, &dim)) {
        return "invalid dim or output size";
    }
    for (uint32_t d = 0; d < out->ndim; d++) {
        sizes[d] = d == dim ? 1 : input->sizes[d > dim ? d - 1 : d];
    }
    return copy_as(input, out, sizes, out->ndim);
}

/* squeeze_copy(input, dim, *, out), where dim is one dimension or a list. Dimensions larger than 1 are
 * kept. */
static const char *squeeze(const etd_call *call) {
    const etd_tensor *input;
    etd_tensor *out;
    uint8_t dims[ETD_MAX_DIMS];
    uint8_t count = 1;
    uint32_t single = 0;
    int32_t sizes[ETD_MAX_DIMS];
    uint32_t ndim = 0;
    const char *refusal = read_tensors(call, &input, &out);
    if (refusal != NULL) {
        return refusal;
    }
    if (!etd_arg_dim(call, 1, input->ndim, &dims[0]) && !etd_arg_dims(call, 1, input->ndim, dims, &count)) {
        return "invalid dim";
    }
    for (uint32_t i = 0; i < count; i++) {
        single |= 1u << dims[i];
    }
    for (uint32_t d = 0; d < input->ndim; d++) {
        if ((single & (1u << d)) == 0 || input->sizes[d] != 1) {
            sizes[ndim++] = input->sizes[d];
        }
    }
    return copy_as(input, out, sizes, ndim);
}

const etd_kernel etd_aten_unsqueeze_copy = {"aten::unsqueeze_copy", "out", "native_call_unsqueeze_copy.out",
                                            3, unsqueeze};
const etd_kernel etd_aten_squeeze_copy_dims = {"aten::squeeze_copy", "dims_out",
                                               "native_call_squeeze_copy.dims_out", 3, squeeze};
const etd_kernel etd_aten_squeeze_copy_dim = {"aten::squeeze_copy", "dim_out",
                                              "native_call_squeeze_copy.dim_out", 3, squeeze};
