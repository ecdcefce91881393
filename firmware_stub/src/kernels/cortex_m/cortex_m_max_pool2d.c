// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/int8_taps.h"
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

static void pool_position(const void *context, const etd_patch *patch, int32_t from, int32_t to) {
    const etd_max_pool2d *pool = context;
    const int32_t *strides = pool->window.input->strides;
    const int32_t channels = pool->window.input->sizes[1];
    const int32_t step = pool->window.out->strides[1];
    const bool are_adjacent = strides[1] == 1 && step == 1;
    const int32_t together = are_adjacent ? channels : 1;
    const int8_t *x = etd_int8s(pool->window.input) + from;
    int8_t *y = etd_out_int8s(pool->window.out) + to;
    for (int32_t left = channels; left > 0; left -= together) {
        memset(y, pool->min, (size_t)together);
        for (int32_t row = 0; row < patch->y.count; row++) {
            for (int32_t column = 0; column < patch->x.count; column++) {
                etd_take_larger(y, x + row * strides[2] + column * strides[3], together);
            }
        }
        for (int32_t i = 0; i < together && pool->max != INT8_MAX; i++) {
            y[i] = (int8_t)(y[i] > pool->max ? pool->max : y[i]);
        }
        x += strides[1];
        y += step;
    }
}

static const char *run(const etd_call *call, etd_layout layout) {
    etd_max_pool2d pool;
    const char *refusal = read_arguments(call, layout, &pool);
    if (refusal != NULL) {
        return refusal;
    }
    etd_slide(&pool.window, pool_position, &pool);
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
