// SPDX-License-Identifier: Apache-2.0
/* Adaptive pooling: the output size is given, and windows of output elements may overlap. */
#include <math.h>

#include "../kernels.h"
#include "../support/moments.h"
#include "../support/window.h"

/* The window of an axis: its first element, and the one after its last. */
typedef struct {
    int32_t first;
    int32_t end;
} etd_share;

static etd_share share_of(const etd_axis *axis, int32_t position) {
    const int64_t in = axis->in;
    const int64_t out = axis->out;
    return (etd_share){(int32_t)(position * in / out), (int32_t)(((position + 1) * in + out - 1) / out)};
}

typedef struct {
    etd_window window;
    int64_t *indices; /* of the maxima in their planes; NULL for averages */
} etd_adaptive_pool;

static float average(const etd_window *window, const float *x, etd_share rows, etd_share columns) {
    const int32_t *strides = window->input->strides;
    const etd_rectangle taps = {rows.end - rows.first, columns.end - columns.first, strides[2], strides[3]};
    return etd_sum_rectangle(x + rows.first * strides[2] + columns.first * strides[3], &taps) /
           (float)(taps.rows * taps.columns);
}

static float maximum(const etd_window *window, const float *x, etd_share rows, etd_share columns,
                     int64_t *index) {
    const int32_t *strides = window->input->strides;
    float max = x[rows.first * strides[2] + columns.first * strides[3]];
    *index = (int64_t)rows.first * window->x.in + columns.first;
    for (int32_t row = rows.first; row < rows.end; row++) {
        for (int32_t column = columns.first; column < columns.end; column++) {
            const float pixel = x[row * strides[2] + column * strides[3]];
            if (pixel > max || isnan(pixel)) {
                max = pixel;
                *index = (int64_t)row * window->x.in + column;
            }
        }
    }
    return max;
}

static void pool_plane(const etd_adaptive_pool *pool, const float *x, int32_t to) {
    const etd_window *window = &pool->window;
    const int32_t *strides = window->out->strides;
    for (int32_t row = 0; row < window->y.out; row++) {
        const etd_share rows = share_of(&window->y, row);
        for (int32_t column = 0; column < window->x.out; column++) {
            const etd_share columns = share_of(&window->x, column);
            const int32_t place = to + row * strides[2] + column * strides[3];
            etd_out_floats(window->out)[place] =
                pool->indices == NULL ? average(window, x, rows, columns)
                                      : maximum(window, x, rows, columns, &pool->indices[place]);
        }
    }
}

/* (input, output_size, *, out) */
static const char *read_arguments(const etd_call *call, etd_adaptive_pool *pool) {
    etd_window *window = &pool->window;
    if (!etd_read_image_or_batch(call, 2, ETD_FLOAT, window)) {
        return "supports only float32 images";
    }
    window->y = (etd_axis){.in = window->input->sizes[2]};
    window->x = (etd_axis){.in = window->input->sizes[3]};
    if (etd_arg_list_count(call, 1) != 2 || !etd_arg_list_int(call, 1, 0, 1, ETD_AXIS_MAX, &window->y.out) ||
        !etd_arg_list_int(call, 1, 1, 1, ETD_AXIS_MAX, &window->x.out)) {
        return "invalid output_size";
    }
    return etd_resize_images(window, window->input->sizes[1]) ? NULL : "invalid output size";
}

static void pool_planes(const etd_adaptive_pool *pool) {
    const etd_tensor *input = pool->window.input;
    const int32_t *to = pool->window.out->strides;
    for (int32_t image = 0; image < input->sizes[0]; image++) {
        for (int32_t channel = 0; channel < input->sizes[1]; channel++) {
            const float *x = etd_floats(input) + image * input->strides[0] + channel * input->strides[1];
            pool_plane(pool, x, image * to[0] + channel * to[1]);
        }
    }
}

/* _adaptive_avg_pool2d(input, output_size, *, out) */
static const char *adaptive_avg_pool2d(const etd_call *call) {
    etd_adaptive_pool pool = {.indices = NULL};
    const char *refusal = read_arguments(call, &pool);
    if (refusal == NULL) {
        pool_planes(&pool);
    }
    return refusal;
}

/* adaptive_max_pool2d(input, output_size, *, out, indices) */
static const char *adaptive_max_pool2d(const etd_call *call) {
    etd_tensor *indices = etd_arg_out(call, 3);
    etd_adaptive_pool pool = {.indices = NULL};
    const char *refusal = read_arguments(call, &pool);
    if (refusal != NULL) {
        return refusal;
    }
    if (!etd_is_type(indices, ETD_LONG) || !etd_take_layout(indices, pool.window.result)) {
        return "type, shape or layout of indices";
    }
    pool.indices = (int64_t *)(void *)indices->data;
    pool_planes(&pool);
    return NULL;
}

ETD_ATEN_KERNEL(adaptive_avg_pool2d, "_adaptive_avg_pool2d", "out", ETD_IN_FLOAT32 + 3, adaptive_avg_pool2d)
ETD_ATEN_KERNEL(adaptive_max_pool2d, "adaptive_max_pool2d", "out", ETD_IN_FLOAT32 + 4, adaptive_max_pool2d)
