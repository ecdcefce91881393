// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "arguments.h"
#include "kernels.h"
#include "requantize.h"
#include "window.h"

typedef struct {
    etd_window window;
    float scale;
    int32_t zero_point;
} etd_avg_pool2d;

/* quantized_avg_pool2d(input, kernel_size, stride, padding, ceil_mode, zero_point, multiplier, shift,
 * scratch, *, out) */
static const char *read_arguments(const etd_call *call, etd_layout layout, etd_avg_pool2d *pool) {
    bool ceil_mode;
    int32_t multiplier;
    int32_t shift;
    if (!etd_read_images(call, 0, 9, ETD_CHAR, layout, &pool->window)) {
        return "supports only int8 in two spatial dimensions";
    }
    if (!etd_arg_bool(call, 4, &ceil_mode)) {
        return "invalid ceil_mode";
    }
    if (!etd_arg_int(call, 5, INT8_MIN, INT8_MAX, &pool->zero_point) ||
        !etd_arg_int(call, 6, 1, INT32_MAX, &multiplier) ||
        !etd_arg_int(call, 7, ETD_SHIFT_MIN, ETD_SHIFT_MAX, &shift)) {
        return "invalid quantization parameters";
    }
    pool->scale = (float)ldexp((double)multiplier, shift - 31);
    return etd_read_pool_axes(call, ceil_mode, &pool->window);
}

/* Returns the mean of a patch of one channel. In float32 and in this order, as in the reference: an integer
 * mean would round some ties the other way. */
static float average(const etd_avg_pool2d *pool, const etd_patch *patch, const int8_t *x) {
    const int32_t *strides = pool->window.input->strides;
    float sum = 0.0f;
    for (int32_t row = 0; row < patch->y.count; row++) {
        const int8_t *tap = x + row * strides[2];
        for (int32_t column = 0; column < patch->x.count; column++) {
            sum += (float)(*tap - pool->zero_point) * pool->scale;
            tap += strides[3];
        }
    }
    return sum / (float)(patch->y.count * patch->x.count);
}

/* Most taps of which the integer mean is used. The reference's float32 mean of n taps is wrong by less than
 * (n + 3) * 2^-24 * 255, an integer's distance from a tie that it does not hit is at least 1 / (2 * n): with
 * up to 128 taps the larger one, so both round to the same integer. */
#define INTEGER_TAPS_MAX 128

/* Computes the output from the integer mean. Returns false at a tie, which only the reference's order of
 * operations decides. */
static bool average_integers(const etd_avg_pool2d *pool, const etd_patch *patch, const int8_t *x, int8_t *y) {
    const int32_t *strides = pool->window.input->strides;
    const int32_t count = patch->y.count * patch->x.count;
    int32_t sum = -pool->zero_point * count;
    for (int32_t row = 0; row < patch->y.count; row++) {
        const int8_t *tap = x + row * strides[2];
        for (int32_t column = patch->x.count; column > 0; column--) {
            sum += *tap;
            tap += strides[3];
        }
    }
    const int32_t positive = 2 * sum + count + 1024 * count; /* |sum| is at most 255 * count */
    const int32_t quotient = positive / (2 * count);
    *y = (int8_t)etd_clamp(quotient - 512 + pool->zero_point, INT8_MIN, INT8_MAX);
    return quotient * 2 * count != positive;
}

static void pool_channel(const void *context, const etd_patch *patch, int32_t from, int32_t to) {
    const etd_avg_pool2d *pool = context;
    const int8_t *x = etd_int8s(pool->window.input) + from;
    int8_t *y = etd_out_int8s(pool->window.out) + to;
    const int32_t count = patch->y.count * patch->x.count;
    if (count > INTEGER_TAPS_MAX || !average_integers(pool, patch, x, y)) {
        *y = etd_quantize(average(pool, patch, x) / pool->scale, pool->zero_point, INT8_MIN, INT8_MAX);
    }
}

static const char *run(const etd_call *call, etd_layout layout) {
    etd_avg_pool2d pool;
    const char *refusal = read_arguments(call, layout, &pool);
    if (refusal != NULL) {
        return refusal;
    }
    etd_slide_channels(&pool.window, pool_channel, &pool);
    return NULL;
}

static const char *quantized_avg_pool2d(const etd_call *call) {
    return run(call, ETD_NCHW);
}

static const char *quantized_avg_pool2d_nhwc(const etd_call *call) {
    return run(call, ETD_NHWC);
}

const etd_kernel etd_cortex_m_avg_pool2d = {"cortex_m::quantized_avg_pool2d", "out",
                                            "native_call_quantized_avg_pool2d.out", 10, quantized_avg_pool2d};
const etd_kernel etd_cortex_m_avg_pool2d_nhwc = {"cortex_m::quantized_avg_pool2d_nhwc", "out",
                                                 "native_call_quantized_avg_pool2d_nhwc.out", 10,
                                                 quantized_avg_pool2d_nhwc};
