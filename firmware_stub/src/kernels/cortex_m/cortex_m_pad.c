// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/walk.h"

/* Length of a padding list, which applies to the last dimensions of a tensor. */
#define PADDED_DIMS 4

/* As the exporter decides: an image with one channel or one pixel has both layouts and counts as channels
 * last. */
static bool is_channels_last(const etd_tensor *tensor) {
    return tensor->ndim == PADDED_DIMS &&
           (tensor->sizes[1] == 1 || (tensor->sizes[2] == 1 && tensor->sizes[3] == 1) ||
            (tensor->dim_order[0] == 0 && tensor->dim_order[1] == 2));
}

/* Reads the entry for dimension d. Lists follow the order of memory. */
static bool read_padding(const etd_call *call, uint32_t list, const etd_tensor *input, uint32_t d,
                         int32_t *padding) {
    static const uint8_t last[PADDED_DIMS] = {0, 3, 1, 2};
    const uint32_t entry = is_channels_last(input) ? last[d] : PADDED_DIMS - input->ndim + d;
    return etd_arg_list_int(call, list, entry, 0, INT16_MAX, padding);
}

/* pad(input, pre_pad, post_pad, pad_value, *, out) */
static const char *pad(const etd_call *call) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 4);
    int32_t sizes[PADDED_DIMS];
    int32_t before[PADDED_DIMS];
    int32_t value;
    if (!etd_is_type(input, ETD_CHAR) || !etd_is_type(out, ETD_CHAR) || input->ndim > PADDED_DIMS) {
        return "supports only int8 in at most four dimensions";
    }
    if (!etd_arg_int(call, 3, INT8_MIN, INT8_MAX, &value)) {
        return "invalid pad_value";
    }
    if (etd_arg_list_count(call, 1) != PADDED_DIMS || etd_arg_list_count(call, 2) != PADDED_DIMS) {
        return "invalid padding";
    }
    for (uint32_t d = 0; d < input->ndim; d++) {
        int32_t after;
        if (!read_padding(call, 1, input, d, &before[d]) || !read_padding(call, 2, input, d, &after) ||
            input->sizes[d] > INT32_MAX - 2 * INT16_MAX) {
            return "invalid padding";
        }
        sizes[d] = before[d] + input->sizes[d] + after;
    }
    if (!etd_resize(out, sizes, input->ndim)) {
        return "invalid output size";
    }
    memset(out->data, value, out->nbytes);
    if (input->nbytes != 0) {
        etd_tensor inside = *out; /* the input's position in the output */
        etd_walk from = {0};
        etd_walk to = {0};
        for (uint32_t d = 0; d < input->ndim; d++) {
            inside.sizes[d] = input->sizes[d];
            to.offset += (uint32_t)before[d] * (uint32_t)out->strides[d];
        }
        inside.nbytes = input->nbytes;
        for (uint32_t i = 0; i < input->ndim;
             i++) { /* in the order of memory, so that rows are copied at once */
            const uint32_t d = input->dim_order[i];
            etd_walk_add(&from, input->sizes[d], input->strides[d]);
            etd_walk_add(&to, input->sizes[d], inside.strides[d]);
        }
        etd_copy_along(input, &from, &inside, &to);
    }
    return NULL;
}

const etd_kernel etd_cortex_m_pad = {"cortex_m::pad", "out", "native_call_pad.out", 5, pad};
