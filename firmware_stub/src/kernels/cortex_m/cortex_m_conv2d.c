// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/column_conv.h"
#include "../support/dot.h"
#include "../support/requantize.h"
#include "../support/window.h"

typedef struct {
    etd_window window;
    const etd_tensor *weight; /* O, kernel y, kernel x, C / groups */
    int32_t groups;
    int32_t input_offset;
    etd_output_stage stage;
} etd_conv2d;

/* quantized_conv2d(input, weight, bias?, stride, padding, dilation, input_offset, output_offset,
 * requantize_multipliers, requantize_shifts, activation_min, activation_max, scratch, *, out) */
static const char *read_arguments(const etd_call *call, etd_layout layout, etd_conv2d *conv) {
    conv->weight = etd_arg_tensor(call, 1);
    if (!etd_read_images(call, 0, 13, ETD_CHAR, layout, &conv->window) ||
        !etd_is(conv->weight, ETD_CHAR, 4)) {
        return "supports only int8 in two spatial dimensions";
    }
    const int32_t *weight = conv->weight->sizes;
    conv->groups = conv->window.input->sizes[1] / weight[3];
    if (conv->groups == 0 || conv->groups * weight[3] != conv->window.input->sizes[1] ||
        weight[0] % conv->groups != 0) {
        return "invalid channels and groups";
    }
    if (!etd_arg_int(call, 6, -INT8_MAX, -INT8_MIN, &conv->input_offset) ||
        !etd_read_output_stage(call, 7, weight[0], &conv->stage)) {
        return "invalid quantization parameters";
    }
    return etd_read_conv_axes(call, weight[1], weight[2], weight[0], &conv->window);
}

/* Returns the sum over the taps of a patch and the channels of one group. x and w point at the first tap. */
static uint32_t dot(const etd_conv2d *conv, const etd_patch *patch, const int8_t *x, const int8_t *w) {
    const int32_t *x_strides = conv->window.input->strides;
    const int32_t *w_strides = conv->weight->strides;
    const int32_t channels = conv->weight->sizes[3];
    const etd_grid channel_steps = {1, channels, 0, x_strides[1], 0, w_strides[3]};
    const bool dense = channels == 1 || (x_strides[1] == 1 && w_strides[3] == 1);
    uint32_t sum = 0;
    for (int32_t row = 0; row < patch->y.count; row++) {
        const int8_t *x_tap = x + row * x_strides[2] * conv->window.y.dilation;
        const int8_t *w_tap = w + row * w_strides[1];
        for (int32_t column = 0; column < patch->x.count; column++) {
            sum += dense ? etd_dot_dense(x_tap, w_tap, channels, conv->input_offset)
                         : etd_dot_grid(x_tap, w_tap, &channel_steps, conv->input_offset);
            x_tap += x_strides[3] * conv->window.x.dilation;
            w_tap += w_strides[2];
        }
    }
    return sum;
}

/* Computes all output channels at one output position. */
static void convolve_position(const void *context, const etd_patch *patch, int32_t from, int32_t to) {
    const etd_conv2d *conv = context;
    const int8_t *x = etd_int8s(conv->window.input) + from;
    int8_t *y = etd_out_int8s(conv->window.out) + to;
    const int32_t *x_strides = conv->window.input->strides;
    const int32_t *w_strides = conv->weight->strides;
    const int8_t *w = etd_int8s(conv->weight) + patch->y.first * w_strides[1] + patch->x.first * w_strides[2];
    const int32_t per_group = conv->weight->sizes[0] / conv->groups;
    int32_t channel = 0;
    for (int32_t group = 0; group < conv->groups; group++) {
        for (int32_t i = 0; i < per_group; i++, channel++) {
            *y = etd_finish(&conv->stage, channel, dot(conv, patch, x, w));
            w += w_strides[0];
            y += conv->window.out->strides[1];
        }
        x += conv->weight->sizes[3] * x_strides[1];
    }
}

static const char *run(const etd_call *call, etd_layout layout) {
    etd_conv2d conv;
    const char *refusal = read_arguments(call, layout, &conv);
    if (refusal != NULL) {
        return refusal;
    }
    if (!etd_convolve_columns(&conv.window, conv.weight, conv.input_offset, &conv.stage,
                              etd_arg_out(call, 12))) {
        etd_slide(&conv.window, convolve_position, &conv);
    }
    return NULL;
}

static const char *quantized_conv2d(const etd_call *call) {
    return run(call, ETD_NCHW);
}

static const char *quantized_conv2d_nhwc(const etd_call *call) {
    return run(call, ETD_NHWC);
}

const etd_kernel etd_cortex_m_conv2d = {"cortex_m::quantized_conv2d", "out",
                                        "native_call_quantized_conv2d.out", 14, quantized_conv2d};
const etd_kernel etd_cortex_m_conv2d_nhwc = {"cortex_m::quantized_conv2d_nhwc", "out",
                                             "native_call_quantized_conv2d_nhwc.out", 14,
                                             quantized_conv2d_nhwc};
