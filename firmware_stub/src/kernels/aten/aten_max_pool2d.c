// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "../kernels.h"
#include "../support/cpu.h"
#include "../support/dot.h"
#include "../support/number.h"
#include "../support/window.h"

typedef struct {
    etd_window window;
    int64_t *indices; /* of the maxima in their input planes */
} etd_max_pool;

/* A dilated window can miss a small input, which then has no maximum. */
static bool every_window_has_a_tap(const etd_axis *axis) {
    for (int32_t position = 0; position < axis->out; position++) {
        if (etd_axis_taps(axis, position).count == 0) {
            return false;
        }
    }
    return true;
}

/* The taps of a patch, and their indices in an input plane. */
typedef struct {
    etd_grid grid; /* w_row and w_column are steps of the indices */
    int32_t index; /* of the first tap */
} etd_max_taps;

/* Stores the first maximum of a patch of each channel, or its last NaN. Not inlined, so that the loop has all
 * registers for itself. */
static ETD_NOINLINE void pool_floats(const etd_max_pool *pool, const etd_max_taps *taps, int32_t from,
                                     int32_t to) {
    const int32_t *x_strides = pool->window.input->strides;
    const int32_t *y_strides = pool->window.out->strides;
    const float *x = etd_floats(pool->window.input) + from;
    const etd_grid grid = taps->grid;
    for (int32_t left = pool->window.input->sizes[1]; left > 0; left--) {
        const float *row_at = x;
        int32_t max_row = grid.rows; /* this and the next count down */
        int32_t max_column = grid.columns;
        float max = *x;
        for (int32_t row = grid.rows; row > 0; row--) {
            const float *tap = row_at;
            for (int32_t column = grid.columns; column > 0; column--) {
                const float next = *tap;
                if (!(next <= max) && (next > max || isnan(next))) {
                    max = next;
                    max_row = row;
                    max_column = column;
                }
                tap += grid.x_column;
            }
            row_at += grid.x_row;
        }
        etd_out_floats(pool->window.out)[to] = max;
        pool->indices[to] =
            taps->index + (grid.rows - max_row) * grid.w_row + (grid.columns - max_column) * grid.w_column;
        x += x_strides[1];
        to += y_strides[1];
    }
}

/* As pool_floats, for any type. */
static ETD_NOINLINE void pool_numbers(const etd_max_pool *pool, const etd_max_taps *taps, int32_t from,
                                      int32_t to) {
    const etd_tensor *input = pool->window.input;
    const etd_grid *grid = &taps->grid;
    for (int32_t left = input->sizes[1]; left > 0; left--) {
        etd_number max = etd_load_number(input, (uint32_t)from);
        pool->indices[to] = taps->index;
        for (int32_t row = 0; row < grid->rows; row++) {
            for (int32_t column = 0; column < grid->columns; column++) {
                const etd_number next =
                    etd_load_number(input, (uint32_t)(from + row * grid->x_row + column * grid->x_column));
                if (etd_exceeds(next, max)) {
                    max = next;
                    pool->indices[to] = taps->index + row * grid->w_row + column * grid->w_column;
                }
            }
        }
        etd_store_number(pool->window.out, (uint32_t)to, max);
        from += input->strides[1];
        to += pool->window.out->strides[1];
    }
}

static void pool_position(const void *context, const etd_patch *patch, int32_t from, int32_t to) {
    const etd_max_pool *pool = context;
    const etd_window *window = &pool->window;
    const int32_t *strides = window->input->strides;
    const int32_t y_step = window->y.dilation;
    const int32_t x_step = window->x.dilation;
    const etd_max_taps taps = {
        .grid = {patch->y.count, patch->x.count, y_step * strides[2], x_step * strides[3],
                 y_step * window->x.in, x_step},
        .index = patch->y.start * window->x.in + patch->x.start,
    };
    if (window->input->dtype == ETD_FLOAT) {
        pool_floats(pool, &taps, from, to);
    } else {
        pool_numbers(pool, &taps, from, to);
    }
}

static const char *run(etd_max_pool *pool, etd_tensor *indices) {
    if (!etd_is_type(indices, ETD_LONG) || !etd_take_layout(indices, pool->window.result)) {
        return "invalid type, shape or layout of indices";
    }
    pool->indices = (int64_t *)(void *)indices->data;
    etd_slide(&pool->window, pool_position, pool);
    return NULL;
}

/* max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode, *, out, indices) */
static const char *max_pool2d(const etd_call *call) {
    etd_max_pool pool;
    int32_t dilation[2];
    bool ceil_mode;
    const etd_tensor *input = etd_arg_tensor(call, 0);
    if (!etd_is_numeric(input) || !etd_read_image_or_batch(call, 6, input->dtype, &pool.window)) {
        return "supports only images of one type";
    }
    if (!etd_arg_pair(call, 4, 1, ETD_AXIS_MAX, dilation) || !etd_arg_bool(call, 5, &ceil_mode)) {
        return "invalid dilation or ceil_mode";
    }
    const char *refusal = etd_read_dilated_pool_axes(call, dilation, ceil_mode, &pool.window);
    if (refusal != NULL) {
        return refusal;
    }
    if (!every_window_has_a_tap(&pool.window.y) || !every_window_has_a_tap(&pool.window.x)) {
        return "a window misses the input";
    }
    return run(&pool, etd_arg_out(call, 7));
}

/* adaptive_max_pool2d(input, output_size, *, out, indices) */
static const char *adaptive_max_pool2d(const etd_call *call) {
    etd_max_pool pool;
    if (!etd_read_image_or_batch(call, 2, ETD_FLOAT, &pool.window)) {
        return "supports only float32 images";
    }
    const char *refusal = etd_read_adaptive_axes(call, &pool.window);
    return refusal != NULL ? refusal : run(&pool, etd_arg_out(call, 3));
}

const etd_kernel etd_aten_max_pool2d = {"aten::max_pool2d_with_indices", "out",
                                        "native_call_max_pool2d_with_indices.out", 8, max_pool2d};

ETD_ATEN_KERNEL(adaptive_max_pool2d, "adaptive_max_pool2d", "out", ETD_IN_FLOAT32 + 4, adaptive_max_pool2d)
