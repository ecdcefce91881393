// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/dot.h"
#include "../support/requantize.h"
#include "../support/window.h"

typedef struct {
    etd_window window;        /* axes of the input as it slides over the output */
    const etd_tensor *weight; /* O, kernel y, kernel x, C */
    int32_t input_offset;
    etd_output_stage stage;
} etd_transpose_conv2d;

/* quantized_transpose_conv2d(input, weight, bias?, stride, padding, output_padding, dilation, input_offset,
 * output_offset, requantize_multipliers, requantize_shifts, activation_min, activation_max, scratch,
 * output_scratch, *, out) */
static const char *read_arguments(const etd_call *call, etd_layout layout, etd_transpose_conv2d *conv) {
    conv->weight = etd_arg_tensor(call, 1);
    if (!etd_read_images(call, 0, 15, ETD_CHAR, layout, &conv->window) ||
        !etd_is(conv->weight, ETD_CHAR, 4)) {
        return "supports only int8 in two spatial dimensions";
    }
    if (conv->window.input->sizes[1] != conv->weight->sizes[3]) {
        return "invalid channels or groups";
    }
    if (!etd_arg_int(call, 7, -INT8_MAX, -INT8_MIN, &conv->input_offset) ||
        !etd_read_output_stage(call, 8, conv->weight->sizes[0], &conv->stage)) {
        return "invalid quantization parameters";
    }
    const int32_t *weight = conv->weight->sizes;
    return etd_read_transposed_axes(call, weight[1], weight[2], weight[0], 5, 6, &conv->window);
}

/* Returns the sum over the taps and channels that reach an output position. x is the image, w one output
 * channel. */
static uint32_t gather(const etd_transpose_conv2d *conv, int32_t row, int32_t column, const int8_t *x,
                       const int8_t *w) {
    const int32_t *x_strides = conv->window.input->strides;
    const int32_t *w_strides = conv->weight->strides;
    const etd_dot_steps steps = {conv->weight->sizes[3], x_strides[1], w_strides[3], conv->input_offset, 0};
    uint32_t sum = 0;
    for (int32_t i = 0; i < conv->window.y.kernel; i++) {
        const int32_t y_in = etd_axis_source(&conv->window.y, row, i);
        for (int32_t j = 0; y_in >= 0 && j < conv->window.x.kernel; j++) {
            const int32_t x_in = etd_axis_source(&conv->window.x, column, j);
            if (x_in >= 0) {
                sum += etd_dot_offsets(x + y_in * x_strides[2] + x_in * x_strides[3],
                                       w + i * w_strides[1] + j * w_strides[2], &steps);
            }
        }
    }
    return sum;
}

/* Computes one row of one image. */
static void compute_row(const etd_transpose_conv2d *conv, int32_t image, int32_t row) {
    const int32_t *strides = conv->window.out->strides;
    const int8_t *x = etd_int8s(conv->window.input) + image * conv->window.input->strides[0];
    int8_t *y = etd_out_int8s(conv->window.out) + image * strides[0] + row * strides[2];
    for (int32_t column = 0; column < conv->window.x.out; column++) {
        const int8_t *w = etd_int8s(conv->weight);
        for (int32_t channel = 0; channel < conv->weight->sizes[0]; channel++) {
            y[channel * strides[1]] = etd_finish(&conv->stage, channel, gather(conv, row, column, x, w));
            w += conv->weight->strides[0];
        }
        y += strides[3];
    }
}

static const char *run(const etd_call *call, etd_layout layout) {
    etd_transpose_conv2d conv;
    const char *refusal = read_arguments(call, layout, &conv);
    if (refusal != NULL) {
        return refusal;
    }
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
