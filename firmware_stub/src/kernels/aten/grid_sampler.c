// SPDX-License-Identifier: Apache-2.0
/* Samples images at given positions. Positions go from -1 to 1 over an image. */
#include <math.h>

#include "../kernels.h"
#include "../support/window.h"

/* As PyTorch numbers them. */
enum { BILINEAR, NEAREST, BICUBIC };
enum { ZEROS, BORDER, REFLECTION };

typedef struct {
    etd_window images;
    const etd_tensor *grid;
    int32_t mode;
    int32_t padding;
    bool align_corners;
} etd_sampler;

/* Mirrors a position at both ends of an axis: at the outer pixels' centers or at their outer edges. */
static float reflect(float place, int32_t size, bool at_centers) {
    const float low = at_centers ? 0.0f : -0.5f;
    const float span = at_centers ? (float)(size - 1) : (float)size;
    if (span <= 0.0f) {
        return 0.0f;
    }
    const float distance = fabsf(place - low);
    const float flips = floorf(distance / span);
    const float rest = distance - flips * span;
    return fmodf(flips, 2.0f) == 0.0f ? low + rest : low + span - rest;
}

/* Returns a position in pixels. */
static float place_of(const etd_sampler *sampler, float position, int32_t size) {
    return sampler->align_corners ? (position + 1.0f) / 2.0f * (float)(size - 1)
                                  : ((position + 1.0f) * (float)size - 1.0f) / 2.0f;
}

/* Applies the padding to a position in pixels. NaN counts as a position outside. */
static float pad(const etd_sampler *sampler, float place, int32_t size) {
    if (sampler->padding == REFLECTION) {
        place = reflect(place, size, sampler->align_corners);
    }
    if (sampler->padding != ZEROS) {
        const float raised = place > 0.0f ? place : 0.0f;
        return raised < (float)(size - 1) ? raised : (float)(size - 1);
    }
    /* Also prevents overflow: all that is further away is outside alike. */
    return place > -2.0f && place < (float)size + 1.0f ? place : -2.0f;
}

/* Returns a pixel; 0 outside the image. */
static float pixel(const etd_sampler *sampler, const float *plane, int32_t row, int32_t column) {
    const int32_t *sizes = sampler->images.input->sizes;
    const int32_t *strides = sampler->images.input->strides;
    const bool inside = row >= 0 && row < sizes[2] && column >= 0 && column < sizes[3];
    return inside ? plane[row * strides[2] + column * strides[3]] : 0.0f;
}

static float sample(const etd_sampler *sampler, const float *plane, float y, float x) {
    if (sampler->mode == NEAREST) {
        return pixel(sampler, plane, (int32_t)rintf(y), (int32_t)rintf(x)); /* ties to even */
    }
    const int32_t top = (int32_t)floorf(y);
    const int32_t left = (int32_t)floorf(x);
    const float down = y - (float)top; /* weight of the lower row */
    const float right = x - (float)left;
    const float above =
        (1.0f - right) * pixel(sampler, plane, top, left) + right * pixel(sampler, plane, top, left + 1);
    const float below = (1.0f - right) * pixel(sampler, plane, top + 1, left) +
                        right * pixel(sampler, plane, top + 1, left + 1);
    return (1.0f - down) * above + down * below;
}

/* The pixels of an axis that a bicubic sample is a sum of. */
typedef struct {
    int32_t at[4];
    float weight[4];
} etd_cubic;

/* A bicubic sample pads each of its pixels, not its position: NaN and infinity make all weights NaN. */
static etd_cubic cubic_of(const etd_sampler *sampler, float place, int32_t size) {
    const float below = floorf(place);
    etd_cubic cubic;
    for (int32_t i = 0; i < 4; i++) {
        const float step = (float)(i - 1);
        const float away = fabsf(place - below - step);
        cubic.at[i] = (int32_t)pad(sampler, below + step, size);
        cubic.weight[i] = i == 0 || i == 3 ? ((-0.75f * away + 3.75f) * away - 6.0f) * away + 3.0f
                                           : (1.25f * away - 2.25f) * away * away + 1.0f;
    }
    return cubic;
}

static float sample_cubic(const etd_sampler *sampler, const float *plane, const etd_cubic *y,
                          const etd_cubic *x) {
    float sum = 0.0f;
    for (int32_t i = 0; i < 4; i++) {
        float line = 0.0f;
        for (int32_t j = 0; j < 4; j++) {
            line += x->weight[j] * pixel(sampler, plane, y->at[i], x->at[j]);
        }
        sum += y->weight[i] * line;
    }
    return sum;
}

static const char *read_arguments(const etd_call *call, etd_sampler *sampler) {
    etd_window *images = &sampler->images;
    sampler->grid = etd_arg_tensor(call, 1);
    const etd_tensor *grid = sampler->grid;
    if (!etd_read_images(call, 0, 5, ETD_FLOAT, ETD_NCHW, images) || !etd_is_type(grid, ETD_FLOAT)) {
        return "supports only float32 images";
    }
    if (!etd_arg_int(call, 2, BILINEAR, BICUBIC, &sampler->mode) ||
        !etd_arg_int(call, 3, ZEROS, REFLECTION, &sampler->padding) ||
        !etd_arg_bool(call, 4, &sampler->align_corners)) {
        return "invalid interpolation_mode, padding_mode or align_corners";
    }
    const int32_t *in = images->input->sizes;
    if (grid->ndim != 4 || grid->sizes[0] != in[0] || grid->sizes[3] != 2 || in[2] > ETD_AXIS_MAX ||
        in[3] > ETD_AXIS_MAX) {
        return "invalid size of input or grid";
    }
    images->y.out = grid->sizes[1];
    images->x.out = grid->sizes[2];
    return etd_resize_images(images, in[1]) ? NULL : "invalid output size";
}

/* Samples all channels of an image at one position; `to` is the offset of channel 0 in the output. */
static void sample_channels(const etd_sampler *sampler, int32_t image, float y, float x, int32_t to) {
    const etd_tensor *input = sampler->images.input;
    const etd_tensor *out = sampler->images.out;
    const float *plane = etd_floats(input) + image * input->strides[0];
    float *result = etd_out_floats(out) + to;
    etd_cubic cubic_y;
    etd_cubic cubic_x;
    x = place_of(sampler, x, input->sizes[3]);
    y = place_of(sampler, y, input->sizes[2]);
    if (sampler->mode == BICUBIC) {
        cubic_x = cubic_of(sampler, x, input->sizes[3]);
        cubic_y = cubic_of(sampler, y, input->sizes[2]);
    } else {
        x = pad(sampler, x, input->sizes[3]);
        y = pad(sampler, y, input->sizes[2]);
    }
    for (int32_t channel = 0; channel < input->sizes[1]; channel++) {
        *result = sampler->mode == BICUBIC ? sample_cubic(sampler, plane, &cubic_y, &cubic_x)
                                           : sample(sampler, plane, y, x);
        plane += input->strides[1];
        result += out->strides[1];
    }
}

/* grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners, *, out) */
static const char *grid_sampler(const etd_call *call) {
    etd_sampler sampler;
    const char *refusal = read_arguments(call, &sampler);
    if (refusal != NULL) {
        return refusal;
    }
    const etd_window *images = &sampler.images;
    const int32_t *in = images->input->sizes;
    const int32_t *to = images->out->strides;
    const int32_t *at = sampler.grid->strides;
    for (int32_t n = 0; n < in[0]; n++) {
        for (int32_t row = 0; row < images->y.out; row++) {
            for (int32_t column = 0; column < images->x.out; column++) {
                const float *position = etd_floats(sampler.grid) + n * at[0] + row * at[1] + column * at[2];
                sample_channels(&sampler, n, position[at[3]], position[0],
                                n * to[0] + row * to[2] + column * to[3]);
            }
        }
    }
    return NULL;
}

ETD_ATEN_KERNEL(grid_sampler, "grid_sampler_2d", "out", ETD_IN_FLOAT32 + 6, grid_sampler)
