#include "kernels.h"
#include "window.h"

typedef struct {
    et_window window;
    bool count_padding;
    int32_t divisor; /* 0: the number of elements */
} et_avg_pool;

/* How many elements of an axis the window covers; with padding, but not beyond it where ceil_mode made the
 * last window stick out. Every window has a tap in the input, or its output size would have been refused. */
static int32_t covered(const et_axis *axis, const et_taps *taps, bool count_padding) {
    if (!count_padding) {
        return taps->count;
    }
    int32_t room = axis->in + axis->pad - (taps->start - taps->first);
    return room < axis->kernel ? room : axis->kernel;
}

static float sum_patch(const et_avg_pool *pool, const et_patch *patch, const float *x) {
    const int32_t *strides = pool->window.input->strides;
    float sum = 0.0f;
    for (int32_t row = 0; row < patch->y.count; row++) {
        for (int32_t column = 0; column < patch->x.count; column++) {
            sum += x[row * strides[2] + column * strides[3]];
        }
    }
    return sum;
}

static void pool_position(const void *context, const et_patch *patch, int32_t from, int32_t to) {
    const et_avg_pool *pool = context;
    const et_window *window = &pool->window;
    const float *x = et_floats(window->input) + from;
    float *y = et_out_floats(window->out) + to;
    int64_t divisor = pool->divisor;
    if (divisor == 0) {
        divisor = (int64_t)covered(&window->y, &patch->y, pool->count_padding) *
                  covered(&window->x, &patch->x, pool->count_padding);
    }
    for (int32_t channel = 0; channel < window->input->sizes[1]; channel++) {
        *y = sum_patch(pool, patch, x) / (float)divisor;
        x += window->input->strides[1];
        y += window->out->strides[1];
    }
}

/* avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override?, *, out) */
static const char *avg_pool2d(const et_call *call) {
    et_avg_pool pool = {.divisor = 0};
    bool ceil_mode;
    const et_tensor *input = et_arg_tensor(call, 0);
    const et_tensor *out = et_arg_out(call, 7);
    if (!et_is_image(input, ET_FLOAT) || !et_is(out, ET_FLOAT, input->ndim)) {
        return "only float32 images";
    }
    if (!et_arg_bool(call, 4, &ceil_mode) || !et_arg_bool(call, 5, &pool.count_padding) ||
        (!et_arg_is_none(call, 6) && !et_arg_int(call, 6, 1, INT32_MAX, &pool.divisor))) {
        return "ceil_mode, count_include_pad or divisor_override";
    }
    et_tensor batch = et_as_batch(input);
    et_tensor out_batch = et_as_batch(out);
    pool.window.input = &batch;
    pool.window.out = &out_batch;
    const char *refusal = et_read_pool_axes(call, ceil_mode, &pool.window);
    if (refusal == NULL) {
        et_slide(&pool.window, pool_position, &pool);
    }
    return refusal;
}

const et_kernel et_aten_avg_pool2d = {"aten::avg_pool2d", "out", "native_call_avg_pool2d.out", 8, avg_pool2d};
