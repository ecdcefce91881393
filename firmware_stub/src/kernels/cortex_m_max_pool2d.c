#include "arguments.h"
#include "kernels.h"
#include "requantize.h"
#include "window.h"

typedef struct {
    et_window window;
    int32_t min;
    int32_t max;
} et_max_pool2d;

/* quantized_max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, input_zero_point,
 * output_zero_point, activation_min, activation_max, *, out) */
static const char *read_arguments(const et_call *call, et_layout layout, et_max_pool2d *pool) {
    int32_t dilation[2];
    bool ceil_mode;
    int32_t zero_point;
    if (!et_read_images(call, 0, 10, ET_CHAR, layout, &pool->window)) {
        return "only int8 in two spatial dimensions";
    }
    if (!et_arg_pair(call, 4, 1, 1, dilation) || !et_arg_bool(call, 5, &ceil_mode) || ceil_mode) {
        return "dilation or ceil_mode";
    }
    if (!et_arg_int(call, 6, INT8_MIN, INT8_MAX, &zero_point) ||
        !et_arg_int(call, 7, zero_point, zero_point, &zero_point)) {
        return "zero points differ";
    }
    if (!et_arg_int(call, 8, INT8_MIN, INT8_MAX, &pool->min) ||
        !et_arg_int(call, 9, pool->min, INT8_MAX, &pool->max)) {
        return "activation range";
    }
    return et_read_pool_axes(call, false, &pool->window);
}

static int8_t largest(const et_max_pool2d *pool, const et_patch *patch, const int8_t *x) {
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

static void pool_channel(const void *context, const et_patch *patch, int32_t from, int32_t to) {
    const et_max_pool2d *pool = context;
    const int8_t max = largest(pool, patch, et_int8s(pool->window.input) + from);
    et_out_int8s(pool->window.out)[to] = (int8_t)et_clamp(max, pool->min, pool->max);
}

static const char *run(const et_call *call, et_layout layout) {
    et_max_pool2d pool;
    const char *refusal = read_arguments(call, layout, &pool);
    if (refusal != NULL) {
        return refusal;
    }
    et_slide_channels(&pool.window, pool_channel, &pool);
    return NULL;
}

static const char *quantized_max_pool2d(const et_call *call) {
    return run(call, ET_NCHW);
}

static const char *quantized_max_pool2d_nhwc(const et_call *call) {
    return run(call, ET_NHWC);
}

const et_kernel et_cortex_m_max_pool2d = {"cortex_m::quantized_max_pool2d", "out",
                                          "native_call_quantized_max_pool2d.out", 11, quantized_max_pool2d};
const et_kernel et_cortex_m_max_pool2d_nhwc = {"cortex_m::quantized_max_pool2d_nhwc", "out",
                                               "native_call_quantized_max_pool2d_nhwc.out", 11,
                                               quantized_max_pool2d_nhwc};
