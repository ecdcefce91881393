// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/requantize.h"
#include "../support/window.h"

typedef struct {
    etd_window window;
    int32_t min;
    int32_t max;
} etd_max_pool2d;

/* quantized_max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, input_zero_point,
 * output_zero_point, activation_min, activation_max, *, out) */
static const char *read_arguments(const etd_call *call, etd_layout layout, etd_max_pool2d *pool) {
    int32_t dilation[2];
    bool ceil_mode;
    int32_t zero_point;
    if (!etd_read_images(call, 0, 10, ETD_CHAR, layout, &pool->window)) {
        return "supports only int8 in two spatial dimensions";
    }
    if (!etd_arg_pair(call, 4, 1, 1, dilation) || !etd_arg_bool(call, 5, &ceil_mode) || ceil_mode) {
        return "invalid dilation or ceil_mode";
    }
    if (!etd_arg_int(call, 6, INT8_MIN, INT8_MAX, &zero_point) ||
        !etd_arg_int(call, 7, zero_point, zero_point, &zero_point)) {
        return "zero points differ";
    }
    if (!etd_arg_int(call, 8, INT8_MIN, INT8_MAX, &pool->min) ||
        !etd_arg_int(call, 9, pool->min, INT8_MAX, &pool->max)) {
        return "invalid activation range";
    }
    return etd_read_pool_axes(call, false, &pool->window);
}

static int8_t largest(const etd_max_pool2d *pool, const etd_patch *patch, const int8_t *x) {
    const int32_t *strides = pool->window.input->strides;
    int8_t max = INT8_MIN;
    for (int32_t row = 0; row < patch->y.count; row++) {
        const int8_t *tap = x + row * strides[2];
        for (int32_t column = 0; column < patch->x.count; column++) {
            max = *tap > max ? *tap : max;
            tap += strides[3];
        }
    }
    return max;
}

static void pool_channel(const void *context, const etd_patch *patch, int32_t from, int32_t to) {
    const etd_max_pool2d *pool = context;
    const int8_t max = largest(pool, patch, etd_int8s(pool->window.input) + from);
    etd_out_int8s(pool->window.out)[to] = (int8_t)etd_clamp(max, pool->min, pool->max);
}

static const char *run(const etd_call *call, etd_layout layout) {
    etd_max_pool2d pool;
    const char *refusal = read_arguments(call, layout, &pool);
    if (refusal != NULL) {
        return refusal;
    }
    etd_slide_channels(&pool.window, pool_channel, &pool);
    return NULL;
}

static const char *quantized_max_pool2d(const etd_call *call) {
    return run(call, ETD_NCHW);
}

static const char *quantized_max_pool2d_nhwc(const etd_call *call) {
    return run(call, ETD_NHWC);
}

const etd_kernel etd_cortex_m_max_pool2d = {"cortex_m::quantized_max_pool2d", "out",
                                            "native_call_quantized_max_pool2d.out", 11, quantized_max_pool2d};
const etd_kernel etd_cortex_m_max_pool2d_nhwc = {"cortex_m::quantized_max_pool2d_nhwc", "out",
                                                 "native_call_quantized_max_pool2d_nhwc.out", 11,
                                                 quantized_max_pool2d_nhwc};
