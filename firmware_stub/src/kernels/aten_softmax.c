// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "arguments.h"
#include "kernels.h"
#include "walk.h"

/* Computes one line of `length` elements, `step` apart. */
static void softmax_line(const float *x, float *y, uint32_t length, uint32_t step) {
    float max = x[0];
    float sum = 0.0f;
    for (uint32_t i = 1; i < length; i++) {
        max = x[i * step] > max ? x[i * step] : max;
    }
    for (uint32_t i = 0; i < length; i++) {
        y[i * step] = expf(x[i * step] - max);
        sum += y[i * step];
    }
    for (uint32_t i = 0; i < length; i++) {
        y[i * step] /= sum;
    }
}

/* _softmax(input, dim, half_to_float, *, out) */
static const char *softmax(const etd_call *call) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 3);
    uint8_t dim;
    bool half_to_float;
    if (!etd_is_type(input, ETD_FLOAT) || !etd_is_type(out, ETD_FLOAT) ||
        !etd_arg_bool(call, 2, &half_to_float) || half_to_float) {
        return "supports only float32";
    }
    if (!etd_take_layout(out, input)) {
        return "input and output differ in shape or layout";
    }
    if (!etd_arg_dim(call, 1, input->ndim, &dim)) {
        return "invalid dim";
    }
    etd_blocks blocks = etd_blocks_along(input, dim);
    for (uint32_t block = 0; block < blocks.outer; block++) {
        uint32_t start = block * blocks.length * blocks.stride;
        for (uint32_t i = start; i < start + blocks.stride; i++) {
            softmax_line(etd_floats(input) + i, etd_out_floats(out) + i, blocks.length, blocks.stride);
        }
    }
    return NULL;
}

const etd_kernel etd_aten_softmax = {"aten::_softmax", "out", "native_call__softmax.out", 4, softmax};
