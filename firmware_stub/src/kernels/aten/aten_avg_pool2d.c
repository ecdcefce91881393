// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/moments.h"
#include "../support/window.h"

typedef struct {
    etd_window window;
    bool count_padding;
    int32_t divisor; /* 0: the number of elements */
} etd_avg_pool;

/* Returns how many elements of an axis the window covers. Padding counts if requested, but not the part
 * beyond it that ceil_mode adds to the last window. Every window has a tap in the input, otherwise its output
 * size would have been rejected. */
static int32_t covered(const etd_axis *axis, const etd_taps *taps, bool count_padding) {
    if (!count_padding) {
        return taps->count;
    }
    int32_t room = axis->in + axis->pad - (taps->start - taps->first);
    return room < axis->kernel ? room : axis->kernel;
}

static void pool_position(const void *context, const etd_patch *patch, int32_t from, int32_t to) {
    const etd_avg_pool *pool = context;
    const etd_window *window = &pool->window;
    int64_t divisor = pool->divisor;
    if (divisor == 0) {
        divisor = (int64_t)covered(&window->y, &patch->y, pool->count_padding) *
                  covered(&window->x, &patch->x, pool->count_padding);
    }
    const float count = (float)divisor;
    const int32_t *strides = window->input->strides;
    const etd_rectangle taps = {patch->y.count, patch->x.count, strides[2], strides[3]};
    const float *x = etd_floats(window->input) + from;
    float *y = etd_out_floats(window->out) + to;
    for (int32_t left = window->input->sizes[1]; left > 0; left--) {
        *y = etd_sum_rectangle(x, &taps) / count;
        x += strides[1];
        y += window->out->strides[1];
    }
}

/* avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override?, *, out) */
static const char *avg_pool2d(const etd_call *call) {
    etd_avg_pool pool = {.divisor = 0};
    bool ceil_mode;
    if (!etd_read_image_or_batch(call, 7, ETD_FLOAT, &pool.window)) {
        return "supports only float32 images";
    }
    if (!etd_arg_bool(call, 4, &ceil_mode) || !etd_arg_bool(call, 5, &pool.count_padding) ||
        (!etd_arg_is_none(call, 6) && !etd_arg_int(call, 6, 1, INT32_MAX, &pool.divisor))) {
        return "invalid ceil_mode, count_include_pad or divisor_override";
    }
    const char *refusal = etd_read_pool_axes(call, ceil_mode, &pool.window);
    if (refusal == NULL) {
        etd_slide(&pool.window, pool_position, &pool);
    }
    return refusal;
}

const etd_kernel etd_aten_avg_pool2d = {"aten::avg_pool2d", "out", "native_call_avg_pool2d.out",
                                        ETD_IN_FLOAT32 + 8, avg_pool2d};

/* _adaptive_avg_pool2d(input, output_size, *, out) */
static const char *adaptive_avg_pool2d(const etd_call *call) {
    etd_avg_pool pool = {.count_padding = false};
    if (!etd_read_image_or_batch(call, 2, ETD_FLOAT, &pool.window)) {
        return "supports only float32 images";
    }
    const char *refusal = etd_read_adaptive_axes(call, &pool.window);
    if (refusal == NULL) {
        etd_slide(&pool.window, pool_position, &pool);
    }
    return refusal;
}

ETD_ATEN_KERNEL(adaptive_avg_pool2d, "_adaptive_avg_pool2d", "out", ETD_IN_FLOAT32 + 3, adaptive_avg_pool2d)
