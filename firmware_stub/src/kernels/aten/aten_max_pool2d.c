// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "../kernels.h"
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

static int64_t index_of(const etd_max_pool *pool, const etd_patch *patch, int32_t row, int32_t column) {
    const int32_t y = patch->y.start + row * pool->window.y.dilation;
    const int32_t x = patch->x.start + column * pool->window.x.dilation;
    return (int64_t)y * pool->window.x.in + x;
}

/* Returns the first maximum of a patch of one channel, or its last NaN. */
static float find_max(const etd_max_pool *pool, const etd_patch *patch, const float *x, int64_t *index) {
    const int32_t *strides = pool->window.input->strides;
    float max = *x;
    *index = index_of(pool, patch, 0, 0);
    for (int32_t row = 0; row < patch->y.count; row++) {
        const float *tap = x + row * pool->window.y.dilation * strides[2];
        for (int32_t column = 0; column < patch->x.count; column++) {
            if (*tap > max || isnan(*tap)) {
                max = *tap;
                *index = index_of(pool, patch, row, column);
            }
            tap += pool->window.x.dilation * strides[3];
        }
    }
    return max;
}

/* As find_max and storing what it finds, for any type. */
static void pool_numbers(const void *context, const etd_patch *patch, int32_t from, int32_t to) {
    const etd_max_pool *pool = context;
    const etd_tensor *input = pool->window.input;
    etd_number max = etd_load_number(input, (uint32_t)from);
    int64_t *index = &pool->indices[to];
    *index = index_of(pool, patch, 0, 0);
    for (int32_t row = 0; row < patch->y.count; row++) {
        int32_t tap = from + row * pool->window.y.dilation * input->strides[2];
        for (int32_t column = 0; column < patch->x.count; column++) {
            const etd_number next = etd_load_number(input, (uint32_t)tap);
            if (etd_exceeds(next, max)) {
                max = next;
                *index = index_of(pool, patch, row, column);
            }
            tap += pool->window.x.dilation * input->strides[3];
        }
    }
    etd_store_number(pool->window.out, (uint32_t)to, max);
}

static void pool_channel(const void *context, const etd_patch *patch, int32_t from, int32_t to) {
    const etd_max_pool *pool = context;
    const float *x = etd_floats(pool->window.input) + from;
    etd_out_floats(pool->window.out)[to] = find_max(pool, patch, x, &pool->indices[to]);
}

/* max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode, *, out, indices) */
static const char *max_pool2d(const etd_call *call) {
    etd_tensor *indices = etd_arg_out(call, 7);
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
    if (!etd_is_type(indices, ETD_LONG) || !etd_take_layout(indices, pool.window.result)) {
        return "invalid type, shape or layout of indices";
    }
    if (!every_window_has_a_tap(&pool.window.y) || !every_window_has_a_tap(&pool.window.x)) {
        return "a window misses the input";
    }
    pool.indices = (int64_t *)(void *)indices->data;
    etd_slide_channels(&pool.window, input->dtype == ETD_FLOAT ? pool_channel : pool_numbers, &pool);
    return NULL;
}

const etd_kernel etd_aten_max_pool2d = {"aten::max_pool2d_with_indices", "out",
                                        "native_call_max_pool2d_with_indices.out", 8, max_pool2d};
