// SPDX-License-Identifier: Apache-2.0
#include "column_conv.h"

#include <string.h>

#include "int8_rows.h"

/* Two output positions are computed together. */
typedef struct {
    const int8_t *columns[2];
    int8_t *outs[2];
    int32_t count; /* positions that wait */
} etd_pair;

typedef struct {
    const etd_window *window;
    int32_t first;    /* output channel of the block */
    int32_t group;    /* first input channel of its group */
    int32_t channels; /* input channels of a group */
    int8_t *scratch;  /* two columns; NULL if the input itself is the column */
    int8_t padding;
    etd_row_block rows;
    etd_pair *pair;
} etd_column_conv;

/* Copies one tap row after the other; taps outside the image get the input's zero point. */
static void gather(const etd_column_conv *conv, const etd_patch *patch, const int8_t *x, int8_t *column) {
    const etd_window *window = conv->window;
    const int32_t *strides = window->input->strides;
    const size_t channels = (size_t)conv->channels;
    const bool adjacent = window->x.dilation == 1 && conv->channels == window->input->sizes[1];
    if (patch->y.count != window->y.kernel || patch->x.count != window->x.kernel) {
        memset(column, conv->padding, (size_t)conv->rows.length);
    }
    column += (size_t)(patch->y.first * window->x.kernel + patch->x.first) * channels;
    for (int32_t row = 0; row < patch->y.count; row++) {
        if (adjacent) {
            memcpy(column, x, (size_t)patch->x.count * channels);
        } else {
            for (int32_t tap = 0; tap < patch->x.count; tap++) {
                memcpy(column + (size_t)tap * channels, x + tap * window->x.dilation * strides[3], channels);
            }
        }
        column += (size_t)window->x.kernel * channels;
        x += window->y.dilation * strides[2];
    }
}

static void convolve_position(const void *context, const etd_patch *patch, int32_t from, int32_t to) {
    const etd_column_conv *conv = context;
    etd_pair *pair = conv->pair;
    const int8_t *x = etd_int8s(conv->window->input) + from + conv->group;
    if (conv->scratch != NULL) {
        int8_t *column = conv->scratch + pair->count * conv->rows.length;
        gather(conv, patch, x, column);
        x = column;
    }
    pair->columns[pair->count] = x;
    pair->outs[pair->count] = etd_out_int8s(conv->window->out) + to + conv->first;
    if (++pair->count == 2) {
        etd_multiply_rows(&conv->rows, pair->columns, pair->outs);
        pair->count = 0;
    }
}

/* Returns true if the taps of a kernel row are adjacent in memory, and so are an output's channels. */
static bool is_layout_supported(const etd_window *window, const etd_tensor *weight) {
    const etd_tensor *x = window->input;
    const etd_tensor *y = window->out;
    return etd_is_contiguous(weight) && (x->sizes[1] == 1 || x->strides[1] == 1) &&
           (window->x.kernel == 1 || x->sizes[3] == 1 || window->x.dilation > 1 ||
            x->strides[3] == x->sizes[1]) &&
           (y->sizes[1] == 1 || y->strides[1] == 1);
}

static bool is_pointwise(const etd_axis *axis) {
    return axis->kernel == 1 && axis->pad == 0;
}

bool etd_convolve_columns(const etd_window *window, const etd_tensor *weight, int32_t input_offset,
                          const etd_output_stage *stage, const etd_tensor *scratch) {
    const int32_t channels = weight->sizes[0];
    const uint32_t length = etd_numel(weight) / (uint32_t)channels;
    const bool needs_scratch = !is_pointwise(&window->y) || !is_pointwise(&window->x);
    if (!is_layout_supported(window, weight) || !etd_is_fast_stage(stage, channels, length)) {
        return false;
    }
    /* A scratch without bytes has the address of other data. */
    if (needs_scratch && (scratch == NULL || scratch->nbytes < 2 * length)) {
        return false;
    }
    etd_pair pair = {0};
    etd_column_conv conv = {.window = window, .padding = (int8_t)-input_offset, .pair = &pair};
    conv.scratch = needs_scratch ? etd_out_int8s(scratch) : NULL;
    conv.channels = weight->sizes[3];
    const int32_t per_group = channels / (window->input->sizes[1] / conv.channels);
    for (conv.first = 0; conv.first < channels; conv.first += conv.rows.count) {
        const int32_t group = conv.first / per_group;
        conv.group = group * conv.channels;
        etd_start_rows(&conv.rows, weight, stage, conv.first, (group + 1) * per_group, input_offset);
        etd_slide(window, convolve_position, &conv);
        if (pair.count == 1) { /* an odd last position is its own partner */
            pair.columns[1] = pair.columns[0];
            pair.outs[1] = pair.outs[0];
            etd_multiply_rows(&conv.rows, pair.columns, pair.outs);
            pair.count = 0;
        }
    }
    return true;
}
