// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/dot.h"
#include "../support/int8_taps.h"
#include "../support/requantize.h"
#include "../support/window.h"

typedef struct {
    etd_window window;
    const etd_tensor *weight; /* 1, kernel y, kernel x, O */
    int32_t multiplier;       /* output channels per input channel */
    int32_t input_offset;
    etd_output_stage stage;
    bool is_fast; /* the loops over four channels support it */
} etd_depthwise;

/* quantized_depthwise_conv2d(input, weight, bias?, stride, padding, dilation, depth_multiplier, input_offset,
 * output_offset, requantize_multipliers, requantize_shifts, activation_min, activation_max, scratch, *, out)
 */
static const char *read_arguments(const etd_call *call, etd_layout layout, etd_depthwise *conv) {
    conv->weight = etd_arg_tensor(call, 1);
    if (!etd_read_images(call, 0, 14, ETD_CHAR, layout, &conv->window) ||
        !etd_is(conv->weight, ETD_CHAR, 4)) {
        return "supports only int8 in two spatial dimensions";
    }
    const int32_t *weight = conv->weight->sizes;
    conv->multiplier = weight[3] / conv->window.input->sizes[1];
    if (weight[0] != 1 || conv->multiplier * conv->window.input->sizes[1] != weight[3] ||
        !etd_arg_int(call, 6, conv->multiplier, conv->multiplier, &conv->multiplier)) {
        return "invalid channels and depth multiplier";
    }
    if (!etd_arg_int(call, 7, -INT8_MAX, -INT8_MIN, &conv->input_offset) ||
        !etd_read_output_stage(call, 8, weight[3], &conv->stage)) {
        return "invalid quantization parameters";
    }
    return etd_read_conv_axes(call, weight[1], weight[2], weight[3], &conv->window);
}

/* Computes all output channels at one output position. */
static void convolve_position(const void *context, const etd_patch *patch, int32_t from, int32_t to) {
    const etd_depthwise *conv = context;
    const int8_t *x = etd_int8s(conv->window.input) + from;
    int8_t *y = etd_out_int8s(conv->window.out) + to;
    const int32_t *x_strides = conv->window.input->strides;
    const int32_t *w_strides = conv->weight->strides;
    const int8_t *w = etd_int8s(conv->weight) + patch->y.first * w_strides[1] + patch->x.first * w_strides[2];
    const etd_grid taps = {
        .rows = patch->y.count,
        .columns = patch->x.count,
        .x_row = x_strides[2] * conv->window.y.dilation,
        .x_column = x_strides[3] * conv->window.x.dilation,
        .w_row = w_strides[1],
        .w_column = w_strides[2],
    };
    if (conv->is_fast) {
        etd_convolve_taps(x, w, &taps, conv->window.input->sizes[1] == 1, conv->input_offset, &conv->stage,
                          conv->weight->sizes[3], y);
        return;
    }
    int32_t channel = 0;
    for (int32_t c = 0; c < conv->window.input->sizes[1]; c++) {
        for (int32_t i = 0; i < conv->multiplier; i++, channel++) {
            *y = etd_finish(&conv->stage, channel, etd_dot_grid(x, w, &taps, conv->input_offset));
            w += w_strides[3];
            y += conv->window.out->strides[1];
        }
        x += x_strides[1];
    }
}

/* Returns true if channels are adjacent in memory and sums in range. Inputs have one channel or as many as
 * the output. */
static bool is_fast(const etd_depthwise *conv) {
    const etd_tensor *x = conv->window.input;
    const etd_tensor *y = conv->window.out;
    const int32_t *weight = conv->weight->sizes;
    const bool is_input_dense = x->sizes[1] == 1 || (conv->multiplier == 1 && x->strides[1] == 1);
    return is_input_dense && (weight[3] == 1 || (conv->weight->strides[3] == 1 && y->strides[1] == 1)) &&
           etd_is_fast_stage(&conv->stage, weight[3], (uint32_t)weight[1] * (uint32_t)weight[2]);
}

static const char *run(const etd_call *call, etd_layout layout) {
    etd_depthwise conv;
    const char *refusal = read_arguments(call, layout, &conv);
    if (refusal != NULL) {
        return refusal;
    }
    conv.is_fast = is_fast(&conv);
    etd_slide(&conv.window, convolve_position, &conv);
    return NULL;
}

static const char *quantized_depthwise_conv2d(const etd_call *call) {
    return run(call, ETD_NCHW);
}

static const char *quantized_depthwise_conv2d_nhwc(const etd_call *call) {
    return run(call, ETD_NHWC);
}

const etd_kernel etd_cortex_m_depthwise_conv2d = {"cortex_m::quantized_depthwise_conv2d", "out",
                                                  "native_call_quantized_depthwise_conv2d.out", 15,
                                                  quantized_depthwise_conv2d};
const etd_kernel etd_cortex_m_depthwise_conv2d_nhwc = {"cortex_m::quantized_depthwise_conv2d_nhwc", "out",
                                                       "native_call_quantized_depthwise_conv2d_nhwc.out", 15,
                                                       quantized_depthwise_conv2d_nhwc};
