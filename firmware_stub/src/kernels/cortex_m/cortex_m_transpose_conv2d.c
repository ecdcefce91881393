// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/segment_conv.h"

/* quantized_transpose_conv2d(input, weight, bias?, stride, padding, output_padding, dilation, input_offset,
 * output_offset, requantize_multipliers, requantize_shifts, activation_min, activation_max, scratch,
 * output_scratch, *, out) */
static const char *read_arguments(const etd_call *call, etd_layout layout, etd_segment_conv *conv) {
    const char *refusal = etd_read_segment_conv(call, layout, 7, 15, conv);
    if (refusal != NULL) {
        return refusal;
    }
    if (conv->groups != 1) {
        return "invalid channels or groups";
    }
    const int32_t *weight = conv->weight->sizes;
    return etd_read_transposed_axes(call, weight[1], weight[2], weight[0], 5, 6, &conv->window);
}

/* Computes one row of one image. */
static void compute_row(const etd_segment_conv *conv, int32_t image, int32_t row) {
    const etd_window *window = &conv->window;
    const int32_t *from = window->input->strides;
    const int32_t *to = window->out->strides;
    const int32_t *w_strides = conv->weight->strides;
    const etd_axis_steps y_steps = etd_steps_of(&window->y, true);
    const etd_axis_steps x_steps = etd_steps_of(&window->x, true);
    const etd_taps y = etd_transposed_taps(&window->y, &y_steps, row);
    etd_grid taps = {
        .rows = y.count,
        .x_row = y_steps.source * from[2],
        .x_column = x_steps.source * from[3],
        .w_row = y_steps.tap * w_strides[1],
        .w_column = x_steps.tap * w_strides[2],
    };
    for (int32_t column = 0; column < window->x.out; column++) {
        const etd_taps x = etd_transposed_taps(&window->x, &x_steps, column);
        taps.columns = x.count;
        etd_convolve_segments(
            conv, &taps, etd_int8s(window->input) + image * from[0] + y.start * from[2] + x.start * from[3],
            etd_int8s(conv->weight) + y.first * w_strides[1] + x.first * w_strides[2],
            etd_out_int8s(window->out) + image * to[0] + row * to[2] + column * to[3]);
    }
}

static const char *run(const etd_call *call, etd_layout layout) {
    etd_segment_conv conv;
    const char *refusal = read_arguments(call, layout, &conv);
    if (refusal != NULL) {
        return refusal;
    }
    etd_start_segments(&conv);
    for (int32_t image = 0; image < conv.window.out->sizes[0]; image++) {
        for (int32_t row = 0; row < conv.window.y.out; row++) {
            compute_row(&conv, image, row);
        }
    }
    return NULL;
}

static const char *quantized_transpose_conv2d(const etd_call *call) {
    return run(call, ETD_NCHW);
}

static const char *quantized_transpose_conv2d_nhwc(const etd_call *call) {
    return run(call, ETD_NHWC);
}

const etd_kernel etd_cortex_m_transpose_conv2d = {"cortex_m::quantized_transpose_conv2d", "out",
                                                  "native_call_quantized_transpose_conv2d.out", 16,
                                                  quantized_transpose_conv2d};
const etd_kernel etd_cortex_m_transpose_conv2d_nhwc = {"cortex_m::quantized_transpose_conv2d_nhwc", "out",
                                                       "native_call_quantized_transpose_conv2d_nhwc.out", 16,
                                                       quantized_transpose_conv2d_nhwc};
