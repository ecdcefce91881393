// SPDX-License-Identifier: Apache-2.0
#include "arguments.h"
#include "convolution.h"
#include "kernels.h"
#include "window.h"

bool etd_read_convolution(const etd_call *call, etd_convolution *conv) {
    const etd_tensor *weight = etd_arg_tensor(call, 1);
    if ((!etd_read_images(call, 0, 9, ETD_FLOAT, ETD_NCHW, &conv->window) &&
         !etd_read_images(call, 0, 9, ETD_FLOAT, ETD_NCX, &conv->window)) ||
        !etd_is(weight, ETD_FLOAT, conv->window.result->ndim)) {
        return false;
    }
    conv->weight = etd_as_images(weight, conv->window.layout);
    return true;
}

/* convolution(input, weight, bias?, stride, padding, dilation, transposed, output_padding, groups, *, out) */
static const char *read_arguments(const etd_call *call, etd_convolution *conv) {
    bool transposed;
    if (!etd_read_convolution(call, conv)) {
        return "supports only float32 in one or two spatial dimensions";
    }
    if (!etd_arg_bool(call, 6, &transposed)) {
        return "invalid transposed is not supported";
    }
    if (transposed) {
        return etd_read_transposed_convolution(call, conv);
    }
    const int32_t *weight = conv->weight.sizes;
    const int32_t channels = conv->window.input->sizes[1];
    if (!etd_arg_int(call, 8, 1, ETD_AXIS_MAX, &conv->groups) || weight[0] % conv->groups != 0 ||
        channels % conv->groups != 0 || channels / conv->groups != weight[1]) {
        return "invalid channels and groups";
    }
    conv->bias = etd_arg_is_none(call, 2) ? NULL : etd_arg_tensor(call, 2);
    if (!etd_arg_is_none(call, 2) && !etd_has_elements(conv->bias, ETD_FLOAT, weight[0])) {
        return "invalid bias";
    }
    return etd_read_conv_axes(call, weight[2], weight[3], weight[0], &conv->window);
}

/* Returns the sum over the channels of one group and the taps of a patch. x and w point at the first tap. */
static float dot(const etd_convolution *conv, const etd_patch *patch, const float *x, const float *w) {
    const int32_t *weight_strides = conv->weight.strides;
    const int32_t channels = conv->weight.sizes[1];
    const int32_t x_channel = conv->window.input->strides[1];
    const int32_t x_row = conv->window.input->strides[2] * conv->window.y.dilation;
    const int32_t x_column = conv->window.input->strides[3] * conv->window.x.dilation;
    float sum = 0.0f;
    for (int32_t channel = 0; channel < channels; channel++) {
        const float *x_tap = x + channel * x_channel;
        const float *w_tap = w + channel * weight_strides[1];
        for (int32_t row = 0; row < patch->y.count; row++) {
            for (int32_t column = 0; column < patch->x.count; column++) {
                sum += x_tap[column * x_column] * w_tap[column * weight_strides[3]];
            }
            x_tap += x_row;
            w_tap += weight_strides[2];
        }
    }
    return sum;
}

/* Computes all output channels at one output position. */
static void convolve_position(const void *context, const etd_patch *patch, int32_t from, int32_t to) {
    const etd_convolution *conv = context;
    const float *x = etd_floats(conv->window.input) + from;
    float *y = etd_out_floats(conv->window.out) + to;
    const int32_t *x_strides = conv->window.input->strides;
    const int32_t *w_strides = conv->weight.strides;
    const float *bias = conv->bias != NULL ? etd_floats(conv->bias) : NULL;
    const float *w =
        etd_floats(&conv->weight) + patch->y.first * w_strides[2] + patch->x.first * w_strides[3];
    const int32_t per_group = conv->weight.sizes[0] / conv->groups;
    for (int32_t group = 0; group < conv->groups; group++) {
        for (int32_t i = 0; i < per_group; i++) {
            float sum = dot(conv, patch, x, w);
            *y = bias != NULL ? sum + *bias++ : sum;
            w += w_strides[0];
            y += conv->window.out->strides[1];
        }
        x += conv->weight.sizes[1] * x_strides[1];
    }
}

static const char *convolution(const etd_call *call) {
    etd_convolution conv = {.transposed = false};
    const char *refusal = read_arguments(call, &conv);
    if (refusal != NULL) {
        return refusal;
    }
    if (conv.transposed) {
        etd_run_transposed_convolution(&conv);
        return NULL;
    }
    etd_slide(&conv.window, convolve_position, &conv);
    return NULL;
}

const etd_kernel etd_aten_convolution = {"aten::convolution", "out", "native_call_convolution.out", 10,
                                         convolution};
