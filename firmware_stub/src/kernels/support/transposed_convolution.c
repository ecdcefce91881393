// SPDX-License-Identifier: Apache-2.0
#include "convolution.h"

const char *etd_read_transposed_convolution(const etd_call *call, etd_convolution *conv) {
    const int32_t *weight = conv->weight.sizes;
    conv->transposed = true;
    if (!etd_arg_int(call, 8, 1, ETD_AXIS_MAX, &conv->groups) || weight[0] % conv->groups != 0 ||
        weight[0] != conv->window.input->sizes[1] || weight[1] > ETD_AXIS_MAX / conv->groups) {
        return "invalid channels and groups";
    }
    const int32_t channels = weight[1] * conv->groups;
    conv->bias = etd_arg_is_none(call, 2) ? NULL : etd_arg_tensor(call, 2);
    if (!etd_arg_is_none(call, 2) && !etd_has_elements(conv->bias, ETD_FLOAT, channels)) {
        return "invalid bias";
    }
    return etd_read_transposed_axes(call, weight[2], weight[3], channels, 7, 5, &conv->window);
}

/* Returns the sum of products over the channels of a group at one input position and tap. */
static float dot_channels(const etd_convolution *conv, const float *x, const float *w) {
    const int32_t channels = conv->weight.sizes[0] / conv->groups;
    float sum = 0.0f;
    for (int32_t channel = 0; channel < channels; channel++) {
        sum += *x * *w;
        x += conv->window.input->strides[1];
        w += conv->weight.strides[0];
    }
    return sum;
}

/* Returns the sum over the taps that reach an output position. x is the group's image, w one output channel.
 */
static float gather(const etd_convolution *conv, int32_t row, int32_t column, const float *x,
                    const float *w) {
    const int32_t *x_strides = conv->window.input->strides;
    const int32_t *w_strides = conv->weight.strides;
    float sum = 0.0f;
    for (int32_t i = 0; i < conv->window.y.kernel; i++) {
        const int32_t y_in = etd_axis_source(&conv->window.y, row, i);
        for (int32_t j = 0; y_in >= 0 && j < conv->window.x.kernel; j++) {
            const int32_t x_in = etd_axis_source(&conv->window.x, column, j);
            if (x_in >= 0) {
                sum += dot_channels(conv, x + y_in * x_strides[2] + x_in * x_strides[3],
                                    w + i * w_strides[2] + j * w_strides[3]);
            }
        }
    }
    return sum;
}

/* Computes one output channel of one image. */
static void compute_plane(const etd_convolution *conv, int32_t image, int32_t channel) {
    const int32_t per_group = conv->weight.sizes[1];
    const int32_t first = channel / per_group * (conv->weight.sizes[0] / conv->groups); /* input channel */
    const int32_t *x_strides = conv->window.input->strides;
    const int32_t *y_strides = conv->window.out->strides;
    const float *x = etd_floats(conv->window.input) + image * x_strides[0] + first * x_strides[1];
    const float *w = etd_floats(&conv->weight) + first * conv->weight.strides[0] +
                     channel % per_group * conv->weight.strides[1];
    const float bias = conv->bias != NULL ? etd_floats(conv->bias)[channel] : 0.0f;
    float *y = etd_out_floats(conv->window.out) + image * y_strides[0] + channel * y_strides[1];
    for (int32_t row = 0; row < conv->window.y.out; row++) {
        for (int32_t column = 0; column < conv->window.x.out; column++) {
            y[row * y_strides[2] + column * y_strides[3]] = bias + gather(conv, row, column, x, w);
        }
    }
}

void etd_run_transposed_convolution(const etd_convolution *conv) {
    for (int32_t image = 0; image < conv->window.out->sizes[0]; image++) {
        for (int32_t channel = 0; channel < conv->window.out->sizes[1]; channel++) {
            compute_plane(conv, image, channel);
        }
    }
}
