// SPDX-License-Identifier: Apache-2.0
/* Upsampling of images: nearest pixel, or bilinear interpolation. */
#include <math.h>

#include "../kernels.h"
#include "../support/window.h"

/* One axis. */
typedef struct {
    int32_t in;
    int32_t out;
    float scale; /* input pixels per output pixel */
    bool align_corners;
} etd_resample_axis;

typedef struct {
    etd_window images;
    etd_resample_axis y;
    etd_resample_axis x;
} etd_resample;

/* Computes one output pixel of all channels of an image; x and y are those of the first channel. */
typedef void (*etd_resample_fn)(const etd_resample *resample, const float *x, float *y, int32_t row,
                                int32_t column);

static int32_t nearest(const etd_resample_axis *axis, int32_t position) {
    const float place = (float)position * axis->scale;
    const int32_t last = axis->in - 1;
    return place < (float)last ? (int32_t)place : last;
}

static void nearest_pixels(const etd_resample *resample, const float *x, float *y, int32_t row,
                           int32_t column) {
    const int32_t *strides = resample->images.input->strides;
    x += nearest(&resample->y, row) * strides[2] + nearest(&resample->x, column) * strides[3];
    for (int32_t left = resample->images.input->sizes[1]; left > 0; left--) {
        *y = *x;
        x += strides[1];
        y += resample->images.out->strides[1];
    }
}

/* The two pixels around a position: the first, the distance to the second, and the weight of the second. */
typedef struct {
    int32_t first;
    int32_t step;
    float weight;
} etd_between;

static etd_between between(const etd_resample_axis *axis, int32_t position) {
    const float exact =
        axis->align_corners ? (float)position * axis->scale : ((float)position + 0.5f) * axis->scale - 0.5f;
    const float place = exact < 0.0f ? 0.0f : exact;
    const int32_t last = axis->in - 1;
    const int32_t first = place < (float)last ? (int32_t)place : last;
    const float weight = place - (float)first;
    return (etd_between){first, first < last ? 1 : 0, weight < 1.0f ? weight : 1.0f};
}

static void weighted_pixels(const etd_resample *resample, const float *plane, float *out, int32_t row,
                            int32_t column) {
    const etd_between y = between(&resample->y, row);
    const etd_between x = between(&resample->x, column);
    const int32_t *strides = resample->images.input->strides;
    const float *top = plane + y.first * strides[2] + x.first * strides[3];
    const float *bottom = top + y.step * strides[2];
    const int32_t right = x.step * strides[3];
    for (int32_t left = resample->images.input->sizes[1]; left > 0; left--) {
        const float above = (1.0f - x.weight) * top[0] + x.weight * top[right];
        const float below = (1.0f - x.weight) * bottom[0] + x.weight * bottom[right];
        *out = (1.0f - y.weight) * above + y.weight * below;
        top += strides[1];
        bottom += strides[1];
        out += resample->images.out->strides[1];
    }
}

/* Computes the scale as PyTorch does: the reciprocal of the factor, or the ratio of sizes without one. */
static float scale_of(const etd_resample_axis *axis, double factor) {
    if (axis->align_corners) {
        return axis->out > 1 ? (float)(axis->in - 1) / (float)(axis->out - 1) : 0.0f;
    }
    return factor > 0.0 ? (float)(1.0 / factor) : (float)axis->in / (float)axis->out;
}

static const char *run(etd_resample *resample, const double factors[2], etd_resample_fn compute) {
    etd_window *images = &resample->images;
    const int32_t *in = images->input->sizes;
    resample->y.in = in[2];
    resample->x.in = in[3];
    if (in[2] > ETD_AXIS_MAX || in[3] > ETD_AXIS_MAX) {
        return "invalid input size";
    }
    images->y.out = resample->y.out;
    images->x.out = resample->x.out;
    if (!etd_resize_images(images, in[1])) {
        return "invalid output size";
    }
    resample->y.scale = scale_of(&resample->y, factors[0]);
    resample->x.scale = scale_of(&resample->x, factors[1]);
    const int32_t *x_strides = images->input->strides;
    const int32_t *y_strides = images->out->strides;
    for (int32_t n = 0; n < in[0]; n++) {
        const float *x = etd_floats(images->input) + n * x_strides[0];
        float *y = etd_out_floats(images->out) + n * y_strides[0];
        for (int32_t row = 0; row < resample->y.out; row++) {
            for (int32_t column = 0; column < resample->x.out; column++) {
                compute(resample, x, y + row * y_strides[2] + column * y_strides[3], row, column);
            }
        }
    }
    return NULL;
}

/* Returns true if sizes and positions stay in range. */
static bool is_factor(double factor) {
    return factor > 1.0 / ETD_AXIS_MAX && factor <= ETD_AXIS_MAX;
}

static bool read_sizes(const etd_call *call, uint32_t i, etd_resample *resample) {
    return etd_arg_list_count(call, i) == 2 &&
           etd_arg_list_int(call, i, 0, 1, ETD_AXIS_MAX, &resample->y.out) &&
           etd_arg_list_int(call, i, 1, 1, ETD_AXIS_MAX, &resample->x.out);
}

static bool scale_size(int32_t in, double factor, int32_t *out) {
    const double size = floor((double)in * factor);
    if (!(size >= 1.0 && size <= ETD_AXIS_MAX)) {
        return false;
    }
    *out = (int32_t)size;
    return true;
}

/* (input, output_size?, [align_corners,] scale_factors?, *, out): either sizes or factors */
static const char *run_by_either(const etd_call *call, uint32_t factors_at, bool align_corners,
                                 etd_resample_fn compute) {
    etd_resample resample = {.y.align_corners = align_corners, .x.align_corners = align_corners};
    double factors[2] = {0.0, 0.0};
    if (!etd_read_images(call, 0, factors_at + 1, ETD_FLOAT, ETD_NCHW, &resample.images)) {
        return "supports only float32 images";
    }
    const int32_t *in = resample.images.input->sizes;
    if (etd_arg_is_none(call, factors_at)) {
        return read_sizes(call, 1, &resample) ? run(&resample, factors, compute) : "invalid output_size";
    }
    if (!etd_arg_is_none(call, 1) || !etd_arg_list_float(call, factors_at, 0, &factors[0]) ||
        !etd_arg_list_float(call, factors_at, 1, &factors[1]) || !is_factor(factors[0]) ||
        !is_factor(factors[1]) || !scale_size(in[2], factors[0], &resample.y.out) ||
        !scale_size(in[3], factors[1], &resample.x.out)) {
        return "invalid output_size or scale_factors";
    }
    return run(&resample, factors, compute);
}

static bool read_factor(const etd_call *call, uint32_t i, double *factor) {
    return etd_arg_is_none(call, i) || (etd_arg_number(call, i, factor) && is_factor(*factor));
}

/* (input, output_size, [align_corners,] scales_h?, scales_w?, *, out) */
static const char *run_by_sizes(const etd_call *call, uint32_t factors_at, bool align_corners,
                                etd_resample_fn compute) {
    etd_resample resample = {.y.align_corners = align_corners, .x.align_corners = align_corners};
    double factors[2] = {0.0, 0.0};
    if (!etd_read_images(call, 0, factors_at + 2, ETD_FLOAT, ETD_NCHW, &resample.images)) {
        return "supports only float32 images";
    }
    if (!read_sizes(call, 1, &resample) || !read_factor(call, factors_at, &factors[0]) ||
        !read_factor(call, factors_at + 1, &factors[1])) {
        return "invalid output_size or scales";
    }
    return run(&resample, factors, compute);
}

static const char *nearest_by_either(const etd_call *call) {
    return run_by_either(call, 2, false, nearest_pixels);
}

static const char *nearest_by_sizes(const etd_call *call) {
    return run_by_sizes(call, 2, false, nearest_pixels);
}

static const char *bilinear_by_either(const etd_call *call) {
    bool align_corners;
    return etd_arg_bool(call, 2, &align_corners) ? run_by_either(call, 3, align_corners, weighted_pixels)
                                                 : "invalid align_corners";
}

static const char *bilinear_by_sizes(const etd_call *call) {
    bool align_corners;
    return etd_arg_bool(call, 2, &align_corners) ? run_by_sizes(call, 3, align_corners, weighted_pixels)
                                                 : "invalid align_corners";
}

ETD_ATEN_KERNEL(upsample_nearest2d, "upsample_nearest2d", "out", ETD_IN_FLOAT32 + 5, nearest_by_sizes)
ETD_ATEN_KERNEL(upsample_nearest2d_vec, "upsample_nearest2d", "vec_out", ETD_IN_FLOAT32 + 4,
                nearest_by_either)
ETD_ATEN_KERNEL(upsample_bilinear2d, "upsample_bilinear2d", "out", ETD_IN_FLOAT32 + 6, bilinear_by_sizes)
ETD_ATEN_KERNEL(upsample_bilinear2d_vec, "upsample_bilinear2d", "vec_out", ETD_IN_FLOAT32 + 5,
                bilinear_by_either)
