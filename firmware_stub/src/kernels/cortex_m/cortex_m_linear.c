// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/dot.h"
#include "../support/int8_rows.h"
#include "../support/requantize.h"
#include "../support/walk.h"

typedef struct {
    const etd_tensor *input;  /* ..., in */
    const etd_tensor *weight; /* out, in */
    etd_tensor *out;          /* ..., out */
    const int32_t *bias;      /* out, or NULL */
    const int32_t
        *sums; /* out, or NULL: bias plus input offset times the sum of the weights, for CPUs with MVE */
    int32_t input_offset;
    int32_t filter_offset;
    int32_t output_offset;
    int32_t multiplier;
    int32_t shift;
    int32_t max;
    int32_t min;
} etd_linear;

static bool shapes_match(const etd_linear *linear) {
    const etd_tensor *input = linear->input;
    const uint32_t last = input->ndim - 1u;
    int32_t sizes[ETD_MAX_DIMS];
    memcpy(sizes, input->sizes, sizeof sizes);
    sizes[last] = linear->weight->sizes[0];
    return input->nbytes != 0 && input->sizes[last] == linear->weight->sizes[1] &&
           etd_resize(linear->out, sizes, input->ndim);
}

/* quantized_linear(input, weights, bias?, kernel_sum?, input_offset, filter_offset, output_offset,
 * requantize_multipliers, requantize_shifts, activation_max, activation_min, *, out) */
static const char *read_arguments(const etd_call *call, etd_linear *linear) {
    linear->input = etd_arg_tensor(call, 0);
    linear->weight = etd_arg_tensor(call, 1);
    linear->out = etd_arg_out(call, 11);
    if (!etd_is_type(linear->input, ETD_CHAR) || !etd_is(linear->weight, ETD_CHAR, 2) ||
        !etd_is_type(linear->out, ETD_CHAR) || linear->input->ndim < 1) {
        return "supports only int8";
    }
    if (!shapes_match(linear) || !etd_read_int32s(call, 2, linear->weight->sizes[0], &linear->bias) ||
        !etd_read_int32s(call, 3, linear->weight->sizes[0], &linear->sums)) {
        return "sizes do not match";
    }
    if (etd_arg_list_count(call, 7) != 1 || etd_arg_list_count(call, 8) != 1) {
        return "supports only one scale";
    }
    if (!etd_arg_int(call, 4, -INT8_MAX, -INT8_MIN, &linear->input_offset) ||
        !etd_arg_int(call, 5, -INT8_MAX, -INT8_MIN, &linear->filter_offset) ||
        !etd_arg_int(call, 6, INT8_MIN, INT8_MAX, &linear->output_offset) ||
        !etd_arg_list_int(call, 7, 0, INT32_MIN, INT32_MAX, &linear->multiplier) ||
        !etd_arg_list_int(call, 8, 0, ETD_SHIFT_MIN, ETD_SHIFT_MAX, &linear->shift) ||
        !etd_arg_int(call, 9, INT8_MIN, INT8_MAX, &linear->max) ||
        !etd_arg_int(call, 10, INT8_MIN, INT8_MAX, &linear->min)) {
        return "invalid quantization parameters";
    }
    if (linear->sums != NULL) {
        linear->input_offset = 0; /* included in the sums, which replace the bias */
        linear->bias = linear->sums;
    }
    return NULL;
}

static void multiply_row(const etd_linear *linear, const int8_t *x, int8_t *y) {
    const int8_t *w = etd_int8s(linear->weight);
    const int32_t y_step = linear->out->strides[linear->out->ndim - 1];
    const etd_dot_steps steps = {
        .count = linear->weight->sizes[1],
        .x_step = linear->input->strides[linear->input->ndim - 1],
        .w_step = linear->weight->strides[1],
        .x_offset = linear->input_offset,
        .w_offset = linear->filter_offset,
    };
    for (int32_t i = 0; i < linear->weight->sizes[0]; i++) {
        uint32_t sum = etd_dot_offsets(x, w, &steps);
        sum += linear->bias != NULL ? (uint32_t)linear->bias[i] : 0u;
        int32_t scaled = etd_requantize((int32_t)sum, linear->multiplier, linear->shift);
        *y = etd_narrow(scaled, linear->output_offset, linear->min, linear->max);
        w += linear->weight->strides[0];
        y += y_step;
    }
}

/* Returns true if rows are adjacent in memory and sums in range. */
static bool is_fast(const etd_linear *linear) {
    const int32_t length = linear->weight->sizes[1];
    const int32_t outputs = linear->weight->sizes[0];
    const uint32_t last = linear->input->ndim - 1u;
    const bool is_output_dense = outputs == 1 || linear->out->strides[last] == 1;
    return linear->filter_offset == 0 && is_output_dense && etd_is_contiguous(linear->weight) &&
           length <= ETD_FAST_LENGTH_MAX && (length == 1 || linear->input->strides[last] == 1) &&
           etd_is_fast_shift(linear->shift) && etd_are_fast_biases(linear->bias, outputs);
}

/* Computes the sums of four outputs; outputs that are missing repeat the first. */
static void add_four(const etd_linear *linear, const int8_t *x, int32_t first, int32_t sums[4]) {
    const int32_t length = linear->weight->sizes[1];
    const int8_t *w[4];
    for (int32_t i = 0; i < 4; i++) {
        const int32_t output = first + i < linear->weight->sizes[0] ? first + i : first;
        w[i] = etd_int8s(linear->weight) + output * length;
        sums[i] = linear->bias != NULL ? linear->bias[output] : 0;
    }
    etd_add_four_rows(w, x, length, linear->input_offset, sums);
}

/* Outputs that are finished together; a multiple of four. */
#define OUTPUT_BLOCK 16

/* As multiply_row, four outputs at a time. Uses about 300 bytes of stack. */
static void multiply_row_fast(const etd_linear *linear, const int8_t *x, int8_t *y) {
    int32_t multipliers[OUTPUT_BLOCK];
    int32_t shifts[OUTPUT_BLOCK];
    int32_t sums[OUTPUT_BLOCK];
    const etd_output_stage stage = {NULL,        multipliers, shifts, linear->output_offset,
                                    linear->min, linear->max};
    const int32_t outputs = linear->weight->sizes[0];
    for (int32_t i = 0; i < OUTPUT_BLOCK && i < outputs; i++) { /* one scale for all */
        multipliers[i] = linear->multiplier;
        shifts[i] = linear->shift;
    }
    for (int32_t first = 0; first < outputs; first += OUTPUT_BLOCK) {
        const int32_t count = outputs - first < OUTPUT_BLOCK ? outputs - first : OUTPUT_BLOCK;
        for (int32_t i = 0; i < count; i += 4) {
            add_four(linear, x, first + i, sums + i);
        }
        etd_finish_many(&stage, 0, sums, count, y + first);
    }
}

static const char *quantized_linear(const etd_call *call) {
    etd_linear linear;
    const char *refusal = read_arguments(call, &linear);
    if (refusal != NULL) {
        return refusal;
    }
    void (*const multiply)(const etd_linear *, const int8_t *, int8_t *) =
        is_fast(&linear) ? multiply_row_fast : multiply_row;
    etd_walk from = {0};
    etd_walk to = {0};
    etd_walk_add_dims(&from, linear.input, linear.input->ndim - 1u);
    etd_walk_add_dims(&to, linear.out, linear.out->ndim - 1u);
    const uint32_t rows = etd_numel(linear.input) / (uint32_t)linear.weight->sizes[1];
    for (uint32_t row = 0; row < rows; row++) {
        multiply(&linear, etd_int8s(linear.input) + from.offset, etd_out_int8s(linear.out) + to.offset);
        etd_walk_next(&from);
        etd_walk_next(&to);
    }
    return NULL;
}

const etd_kernel etd_cortex_m_linear = {"cortex_m::quantized_linear", "out",
                                        "native_call_quantized_linear.out", 12, quantized_linear};
