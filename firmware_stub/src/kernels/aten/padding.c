// SPDX-License-Identifier: Apache-2.0
/* Padding with a number, with mirrored elements or with those at the edge. */
#include "../kernels.h"
#include "../support/number.h"
#include "../support/slice.h"

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
    etd_fill(out, value);
    etd_copy_along(input, &from, out, &to);
    return NULL;
}

/* Copies one element of dimension `dim`, with all of the other dimensions, within the output. */
static void copy_within(etd_tensor *out, uint32_t dim, int32_t from, int32_t to) {
    const etd_slice source = {.dim = (uint8_t)dim, .first = from, .step = 1, .count = 1};
    const etd_slice target = {.dim = (uint8_t)dim, .first = to, .step = 1, .count = 1};
    etd_walk from_walk = etd_walk_slice(out, &source);
    etd_walk to_walk = etd_walk_slice(out, &target);
    etd_copy_along(out, &from_walk, out, &to_walk);
}

/* Fills what the pads added along one dimension from the elements between them. What earlier dimensions still
 * lack there is filled when it is their turn. */
static void extend(etd_tensor *out, uint32_t dim, const int32_t pads[2], bool mirrored) {
    const int32_t first = pads[0];
    const int32_t last = out->sizes[dim] - pads[1] - 1;
    for (int32_t i = 1; i <= pads[0]; i++) {
        copy_within(out, dim, mirrored ? first + i : first, first - i);
    }
    for (int32_t i = 1; i <= pads[1]; i++) {
        copy_within(out, dim, mirrored ? last - i : last, last + i);
    }
}

/* Pads the last `padded` dimensions: (input, padding, *, out), with or without a batch. */
static const char *pad_edges(const etd_call *call, uint32_t padded, bool mirrored) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 2);
    int32_t pads[2];
    etd_walk from = {0};
    etd_walk to = {0};
    if (input == NULL || !etd_is_type(out, input->dtype)) {
        return "input and output differ in type";
    }
    if (input->ndim != padded + 1 && input->ndim != padded + 2) {
        return "invalid number of dimensions";
    }
    if (etd_arg_list_count(call, 1) != 2 * padded) {
        return "invalid padding";
    }
    for (uint32_t d = input->ndim - padded; d < input->ndim; d++) {
        const int32_t limit = mirrored ? input->sizes[d] - 1 : MAX_PAD;
        if (!read_pads(call, input, d, pads) || pads[0] < 0 || pads[1] < 0 || pads[0] > limit ||
            pads[1] > limit || input->sizes[d] == 0) {
            return "invalid padding";
        }
    }
    const char *refusal = plan_walks(call, input, out, &from, &to);
    if (refusal != NULL) {
        return refusal;
    }
    etd_copy_along(input, &from, out, &to);
    for (uint32_t d = input->ndim - padded; d < input->ndim; d++) {
        (void)read_pads(call, input, d, pads);
        extend(out, d, pads, mirrored);
    }
    return NULL;
}

#define EDGES(name, padded, mirrored)                                                                        \
    static const char *name(const etd_call *call) {                                                          \
        return pad_edges(call, padded, mirrored);                                                            \
    }                                                                                                        \
    ETD_ATEN_KERNEL(name, #name, "out", 3, name)

EDGES(reflection_pad1d, 1, true)
EDGES(reflection_pad2d, 2, true)
EDGES(reflection_pad3d, 3, true)
EDGES(replication_pad1d, 1, false)
EDGES(replication_pad2d, 2, false)
EDGES(replication_pad3d, 3, false)

ETD_ATEN_KERNEL(constant_pad_nd, "constant_pad_nd", "out", 4, constant_pad_nd)
