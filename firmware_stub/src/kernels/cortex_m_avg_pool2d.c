#include <math.h>

#include "arguments.h"
#include "kernels.h"
#include "requantize.h"
#include "window.h"

typedef struct {
    et_window window;
    float scale;
    int32_t zero_point;
} et_avg_pool2d;

/* quantized_avg_pool2d(input, kernel_size, stride, padding, ceil_mode, zero_point, multiplier, shift,
 * scratch, *, out) */
static const char *read_arguments(const et_call *call, et_layout layout, et_avg_pool2d *pool) {
    bool ceil_mode;
    int32_t multiplier;
    int32_t shift;
    if (!et_read_images(call, 0, 9, ET_CHAR, layout, &pool->window)) {
        return "only int8 in two spatial dimensions";
    }
    if (!et_arg_bool(call, 4, &ceil_mode)) {
        return "ceil_mode";
    }
    if (!et_arg_int(call, 5, INT8_MIN, INT8_MAX, &pool->zero_point) ||
        !et_arg_int(call, 6, 1, INT32_MAX, &multiplier) ||
        !et_arg_int(call, 7, ET_SHIFT_MIN, ET_SHIFT_MAX, &shift)) {
        return "quantization";
    }
    pool->scale = (float)ldexp((double)multiplier, shift - 31);
    return et_read_pool_axes(call, ceil_mode, &pool->window);
}

/* The mean of a patch of one channel. In float32 and in this order, because the reference is: an integer mean
 * would round some ties to the other side. */
static float average(const et_avg_pool2d *pool, const et_patch *patch, const int8_t *x) {
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

static void pool_channel(const void *context, const et_patch *patch, int32_t from, int32_t to) {
    const et_avg_pool2d *pool = context;
    const float mean = average(pool, patch, et_int8s(pool->window.input) + from);
    et_out_int8s(pool->window.out)[to] =
        et_quantize(mean / pool->scale, pool->zero_point, INT8_MIN, INT8_MAX);
}

static const char *run(const et_call *call, et_layout layout) {
    et_avg_pool2d pool;
    const char *refusal = read_arguments(call, layout, &pool);
    if (refusal != NULL) {
        return refusal;
    }
    et_slide_channels(&pool.window, pool_channel, &pool);
    return NULL;
}

static const char *quantized_avg_pool2d(const et_call *call) {
    return run(call, ET_NCHW);
}

static const char *quantized_avg_pool2d_nhwc(const et_call *call) {
    return run(call, ET_NHWC);
}

const et_kernel et_cortex_m_avg_pool2d = {"cortex_m::quantized_avg_pool2d", "out",
                                          "native_call_quantized_avg_pool2d.out", 10, quantized_avg_pool2d};
const et_kernel et_cortex_m_avg_pool2d_nhwc = {"cortex_m::quantized_avg_pool2d_nhwc", "out",
                                               "native_call_quantized_avg_pool2d_nhwc.out", 10,
                                               quantized_avg_pool2d_nhwc};
