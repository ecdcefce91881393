// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/column_conv.h"
#include "../support/segment_conv.h"

/* quantized_conv2d(input, weight, bias?, stride, padding, dilation, input_offset, output_offset,
 * requantize_multipliers, requantize_shifts, activation_min, activation_max, scratch, *, out) */
static const char *read_arguments(const etd_call *call, etd_layout layout, etd_segment_conv *conv) {
    const char *refusal = etd_read_segment_conv(call, layout, 6, 13, conv);
    if (refusal != NULL) {
        return refusal;
    }
    const int32_t *weight = conv->weight->sizes;
    return etd_read_conv_axes(call, weight[1], weight[2], weight[0], &conv->window);
}

/* Computes all output channels at one output position. */
static void convolve_position(const void *context, const etd_patch *patch, int32_t from, int32_t to) {
    const etd_segment_conv *conv = context;
    const int32_t *x_strides = conv->window.input->strides;
    const int32_t *w_strides = conv->weight->strides;
    const etd_grid taps = {
        .rows = patch->y.count,
        .columns = patch->x.count,
        .x_row = x_strides[2] * conv->window.y.dilation,
        .x_column = x_strides[3] * conv->window.x.dilation,
        .w_row = w_strides[1],
        .w_column = w_strides[2],
    };
    etd_convolve_segments(conv, &taps, etd_int8s(conv->window.input) + from,
                          etd_int8s(conv->weight) + patch->y.first * w_strides[1] +
                              patch->x.first * w_strides[2],
                          etd_out_int8s(conv->window.out) + to);
}

static const char *run(const etd_call *call, etd_layout layout) {
    etd_segment_conv conv;
    const char *refusal = read_arguments(call, layout, &conv);
    if (refusal != NULL) {
        return refusal;
    }
    if (!etd_convolve_columns(&conv.window, conv.weight, conv.input_offset, &conv.stage,
                              etd_arg_out(call, 12))) {
        etd_start_segments(&conv);
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
