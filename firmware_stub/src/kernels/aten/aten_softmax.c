// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/moments.h"
#include "../support/walk.h"

/* Computes one line of `length` elements, `step` apart. */
typedef void (*etd_softmax_fn)(const float *x, float *y, uint32_t length, uint32_t step);

static float largest(const float *x, uint32_t length, uint32_t step) {
    float max = x[0];
    for (uint32_t i = 1; i < length; i++) {
        max = x[i * step] > max ? x[i * step] : max;
    }
    return max;
}

/* Returns the sum of exp(x - max), and stores its terms unless `y` is NULL. */
static ETD_NOINLINE float add_few(const float *x, float *y, uint32_t length, uint32_t step, float max) {
    float total = 0.0f;
    for (uint32_t i = 0; i < length; i++) {
        const float term = expf(x[i * step] - max);
        if (y != NULL) {
            y[i * step] = term;
        }
        total += term;
    }
    return total;
}

/* As add_few, for any length. */
static float add_exponentials(const float *x, float *y, uint32_t length, uint32_t step, float max) {
    etd_sum sum;
    sum.parts = 0;
    for (; length > ETD_SUM_FEW; length -= ETD_SUM_FEW) {
        etd_sum_add(&sum, add_few(x, y, ETD_SUM_FEW, step, max));
        x += ETD_SUM_FEW * step;
        y = y != NULL ? y + ETD_SUM_FEW * step : NULL;
    }
    const float last = add_few(x, y, length, step, max);
    if (sum.parts == 0) {
        return last;
    }
    etd_sum_add(&sum, last);
    return etd_sum_total(&sum);
}

static void softmax_line(const float *x, float *y, uint32_t length, uint32_t step) {
    const float max = largest(x, length, step);
    const float sum = add_exponentials(x, y, length, step, max);
    for (uint32_t i = 0; i < length; i++) {
        y[i * step] /= sum;
    }
}

/* The logarithm of the softmax, which itself could underflow. */
static void log_softmax_line(const float *x, float *y, uint32_t length, uint32_t step) {
    const float max = largest(x, length, step);
    const float log_sum = logf(add_exponentials(x, NULL, length, step, max));
    for (uint32_t i = 0; i < length; i++) {
        y[i * step] = x[i * step] - max - log_sum;
    }
}

/* (input, dim, half_to_float, *, out) */
static const char *run_lines(const etd_call *call, etd_softmax_fn compute) {
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
    if (!etd_arg_wrapped_dim(call, 1, input->ndim, &dim)) {
        return "invalid dim";
    }
    etd_blocks blocks = etd_blocks_along(input, dim);
    for (uint32_t block = 0; block < blocks.outer; block++) {
        uint32_t start = block * blocks.length * blocks.stride;
        for (uint32_t i = start; i < start + blocks.stride; i++) {
            compute(etd_floats(input) + i, etd_out_floats(out) + i, blocks.length, blocks.stride);
        }
    }
    return NULL;
}

static const char *softmax(const etd_call *call) {
    return run_lines(call, softmax_line);
}

static const char *log_softmax(const etd_call *call) {
    return run_lines(call, log_softmax_line);
}

ETD_ATEN_KERNEL(softmax, "_softmax", "out", ETD_IN_FLOAT32 + 4, softmax)
ETD_ATEN_KERNEL(log_softmax, "_log_softmax", "out", ETD_IN_FLOAT32 + 4, log_softmax)
