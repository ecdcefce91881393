// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"
#include "number.h"
#include "walk.h"

/* Upper limit of a pad, so that sums of sizes cannot overflow. */
#define MAX_PAD (1 << 20)

/* Reads the pads before and after dimension d. The list begins with the last dimension. */
static bool read_pads(const etd_call *call, const etd_tensor *input, uint32_t d, int32_t pads[2]) {
    const uint32_t item = 2u * (input->ndim - 1u - d);
    pads[0] = pads[1] = 0;
    return item >= etd_arg_list_count(call, 1) ||
           (etd_arg_list_int(call, 1, item, -MAX_PAD, MAX_PAD, &pads[0]) &&
            etd_arg_list_int(call, 1, item + 1, -MAX_PAD, MAX_PAD, &pads[1]));
}

static int32_t cut(int32_t pad) {
    return pad < 0 ? -pad : 0;
}

/* Plans the copy of the part of the input that negative pads leave. */
static const char *plan_walks(const etd_call *call, const etd_tensor *input, etd_tensor *out, etd_walk *from,
                              etd_walk *to) {
    int32_t sizes[ETD_MAX_DIMS];
    for (uint32_t d = 0; d < input->ndim; d++) {
        int32_t pads[2];
        if (!read_pads(call, input, d, pads)) {
            return "invalid pad";
        }
        const int64_t size = (int64_t)input->sizes[d] + pads[0] + pads[1];
        if (size < 0 || size > INT32_MAX || input->sizes[d] - cut(pads[0]) - cut(pads[1]) < 0) {
            return "invalid output size";
        }
        sizes[d] = (int32_t)size;
    }
    if (!etd_resize(out, sizes, input->ndim)) {
        return "invalid output size";
    }
    for (uint32_t d = 0; d < input->ndim; d++) {
        int32_t pads[2];
        (void)read_pads(call, input, d, pads);
        const int32_t kept = input->sizes[d] - cut(pads[0]) - cut(pads[1]);
        from->offset += (uint32_t)cut(pads[0]) * (uint32_t)input->strides[d];
        to->offset += (uint32_t)(pads[0] > 0 ? pads[0] : 0) * (uint32_t)out->strides[d];
        etd_walk_add(from, kept, input->strides[d]);
        etd_walk_add(to, kept, out->strides[d]);
    }
    return NULL;
}

/* constant_pad_nd(input, pad, value, *, out) */
static const char *constant_pad_nd(const etd_call *call) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 3);
    const uint32_t pads = etd_arg_list_count(call, 1);
    etd_number value = {0};
    etd_walk from = {0};
    etd_walk to = {0};
    if (!etd_is_numeric(input) || !etd_is_type(out, input->dtype)) {
        return "input and output differ in type";
    }
    if (pads % 2 != 0 || pads > 2u * input->ndim || out->ndim != input->ndim) {
        return "invalid pad";
    }
    if (!etd_arg_scalar(call, 2, &value)) {
        return "invalid value";
    }
    const char *refusal = plan_walks(call, input, out, &from, &to);
    if (refusal != NULL) {
        return refusal;
    }
    const uint32_t numel = etd_numel(out);
    for (uint32_t i = 0; i < numel; i++) {
        etd_store_number(out, i, value);
    }
    etd_copy_along(input, &from, out, &to);
    return NULL;
}

const etd_kernel etd_aten_constant_pad_nd = {"aten::constant_pad_nd", "out",
                                             "native_call_constant_pad_nd.out", 4, constant_pad_nd};
