// SPDX-License-Identifier: Apache-2.0
#include "segment_conv.h"

#include "int8_rows.h"

const char *etd_read_segment_conv(const etd_call *call, etd_layout layout, uint32_t first, uint32_t out,
                                  etd_segment_conv *conv) {
    conv->weight = etd_arg_tensor(call, 1);
    if (!etd_read_images(call, 0, out, ETD_CHAR, layout, &conv->window) ||
        !etd_is(conv->weight, ETD_CHAR, 4)) {
        return "supports only int8 in two spatial dimensions";
    }
    const int32_t *weight = conv->weight->sizes;
    const int32_t channels = conv->window.input->sizes[1];
    conv->groups = channels / weight[3];
    if (conv->groups == 0 || conv->groups * weight[3] != channels || weight[0] % conv->groups != 0) {
        return "invalid channels and groups";
    }
    if (!etd_arg_int(call, first, -INT8_MAX, -INT8_MIN, &conv->input_offset) ||
        !etd_read_output_stage(call, first + 1, weight[0], &conv->stage)) {
        return "invalid quantization parameters";
    }
    return NULL;
}

void etd_start_segments(etd_segment_conv *conv) {
    const int32_t *weight = conv->weight->sizes;
    conv->is_fast =
        (weight[3] == 1 || (conv->window.input->strides[1] == 1 && conv->weight->strides[3] == 1)) &&
        (weight[0] == 1 || conv->window.out->strides[1] == 1) &&
        etd_is_fast_stage(&conv->stage, weight[0], etd_numel(conv->weight) / (uint32_t)weight[0]);
}

/* Computes adjacent output channels of a group, from `first` on, at most ETD_ROW_BLOCK. */
static void convolve_block(const etd_segment_conv *conv, const etd_grid *taps, const int8_t *x,
                           const int8_t *w, int32_t first, int32_t count, int8_t *y) {
    const int32_t row_step = conv->weight->strides[0];
    int32_t sums[ETD_ROW_BLOCK];
    const int32_t *bias = conv->stage.bias != NULL ? conv->stage.bias + first : NULL;
    for (int32_t i = 0; i < count; i += 4) {
        const int8_t *rows[4];
        for (int32_t row = i; row < i + 4; row++) {
            sums[row] = bias != NULL && row < count ? bias[row] : 0;
            rows[row - i] = w;
            w += row + 1 < count ? row_step : 0; /* missing rows repeat the last one */
        }
        etd_add_four_segments(rows, x, conv->weight->sizes[3], taps, conv->input_offset, sums + i);
    }
    etd_finish_many(&conv->stage, first, sums, count, y);
}

/* As etd_convolve_segments, of one output channel with any stage and in any layout. */
static uint32_t add_products(const etd_segment_conv *conv, const etd_grid *taps, const int8_t *x,
                             const int8_t *w) {
    const etd_dot_steps steps = {conv->weight->sizes[3], conv->window.input->strides[1],
                                 conv->weight->strides[3], conv->input_offset, 0};
    uint32_t sum = 0;
    for (int32_t row = 0; row < taps->rows; row++) {
        for (int32_t column = 0; column < taps->columns; column++) {
            sum += etd_dot_offsets(x + column * taps->x_column, w + column * taps->w_column, &steps);
        }
        x += taps->x_row;
        w += taps->w_row;
    }
    return sum;
}

void etd_convolve_segments(const etd_segment_conv *conv, const etd_grid *taps, const int8_t *x,
                           const int8_t *w, int8_t *y) {
    const int32_t per_group = conv->weight->sizes[0] / conv->groups;
    const int32_t most = conv->is_fast ? ETD_ROW_BLOCK : 1;
    int32_t count;
    for (int32_t channel = 0; channel < conv->weight->sizes[0]; channel += count) {
        const int32_t left = per_group - channel % per_group;
        const int8_t *group =
            x + channel / per_group * conv->weight->sizes[3] * conv->window.input->strides[1];
        count = left < most ? left : most;
        if (conv->is_fast) {
            convolve_block(conv, taps, group, w, channel, count, y);
        } else {
            *y = etd_finish(&conv->stage, channel, add_products(conv, taps, group, w));
        }
        w += count * conv->weight->strides[0];
        y += count * conv->window.out->strides[1];
    }
}
