// SPDX-License-Identifier: Apache-2.0
/* Resizes images with a filter as wide as the step between output pixels: bilinear interpolation that leaves
 * out no pixel when it shrinks. */
#include <math.h>

#include "../kernels.h"
#include "../support/window.h"

/* One axis. */
typedef struct {
    int32_t in;
    int32_t out;
    float scale; /* input pixels per output pixel */
} etd_filter_axis;

/* The input pixels of one output position. */
typedef struct {
    int32_t first;
    int32_t count;
    float center;
    float width;
    float total; /* of all weights */
} etd_filter;

static float weight_of(const etd_filter *filter, int32_t place) {
    const float away = fabsf((float)place - filter->center + 0.5f) / filter->width;
    return away < 1.0f ? (1.0f - away) / filter->total : 0.0f;
}

static etd_filter filter_at(const etd_filter_axis *axis, int32_t position) {
    const float width = axis->scale > 1.0f ? axis->scale : 1.0f;
    const float center = axis->scale * ((float)position + 0.5f);
    const float begin = center - width + 0.5f;
    const float end = center + width + 0.5f;
    etd_filter filter = {.center = center, .width = width, .total = 1.0f};
    filter.first = begin < 0.0f ? 0 : begin < (float)axis->in ? (int32_t)begin : axis->in;
    filter.count = (end < (float)axis->in ? (int32_t)end : axis->in) - filter.first;
    float total = 0.0f;
    for (int32_t i = 0; i < filter.count; i++) {
        total += weight_of(&filter, filter.first + i);
    }
    if (total > 0.0f) {
        filter.total = total;
    }
    return filter;
}

static float filtered(const float *plane, const int32_t strides[2], const etd_filter *y,
                      const etd_filter *x) {
    float sum = 0.0f;
    for (int32_t row = y->first; row < y->first + y->count; row++) {
        float line = 0.0f;
        for (int32_t column = x->first; column < x->first + x->count; column++) {
            line += weight_of(x, column) * plane[row * strides[0] + column * strides[1]];
        }
        sum += weight_of(y, row) * line;
    }
    return sum;
}

/* Reads the size and the factor (argument `factor_at`, may be None) of axis `item`. */
static bool read_axis(const etd_call *call, uint32_t item, uint32_t factor_at, bool align_corners,
                      etd_filter_axis *axis) {
    double factor = 0.0;
    if (axis->in > ETD_AXIS_MAX || !etd_arg_list_int(call, 1, item, 1, ETD_AXIS_MAX, &axis->out) ||
        (!etd_arg_is_none(call, factor_at) && (!etd_arg_number(call, factor_at, &factor) ||
                                               !(factor > 1.0 / ETD_AXIS_MAX && factor <= ETD_AXIS_MAX)))) {
        return false;
    }
    axis->scale = factor > 0.0 ? (float)(1.0 / factor) : (float)axis->in / (float)axis->out;
    if (align_corners) {
        axis->scale = axis->out > 1 ? (float)(axis->in - 1) / (float)(axis->out - 1) : 0.0f;
    }
    return true;
}

/* _upsample_bilinear2d_aa(input, output_size, align_corners, scales_h?, scales_w?, *, out) */
static const char *upsample_antialiased(const etd_call *call) {
    etd_window images;
    bool align_corners;
    if (!etd_read_images(call, 0, 5, ETD_FLOAT, ETD_NCHW, &images)) {
        return "supports only float32 images";
    }
    const int32_t *in = images.input->sizes;
    etd_filter_axis y = {.in = in[2]};
    etd_filter_axis x = {.in = in[3]};
    if (!etd_arg_bool(call, 2, &align_corners) || etd_arg_list_count(call, 1) != 2 ||
        !read_axis(call, 0, 3, align_corners, &y) || !read_axis(call, 1, 4, align_corners, &x)) {
        return "invalid output_size, align_corners or scales";
    }
    images.y.out = y.out;
    images.x.out = x.out;
    if (!etd_resize_images(&images, in[1])) {
        return "invalid output size";
    }
    const int32_t *from = images.input->strides;
    const int32_t *to = images.out->strides;
    for (int32_t row = 0; row < y.out; row++) {
        const etd_filter y_filter = filter_at(&y, row);
        for (int32_t column = 0; column < x.out; column++) {
            const etd_filter x_filter = filter_at(&x, column);
            for (int32_t plane = 0; plane < in[0] * in[1]; plane++) {
                const int32_t n = plane / in[1];
                const int32_t c = plane % in[1];
                const float *pixels = etd_floats(images.input) + n * from[0] + c * from[1];
                etd_out_floats(images.out)[n * to[0] + c * to[1] + row * to[2] + column * to[3]] =
                    filtered(pixels, from + 2, &y_filter, &x_filter);
            }
        }
    }
    return NULL;
}

ETD_ATEN_KERNEL(upsample_antialiased, "_upsample_bilinear2d_aa", "out", ETD_IN_FLOAT32 + 6,
                upsample_antialiased)
