#include <string.h>

#include "arguments.h"
#include "dot.h"
#include "kernels.h"
#include "requantize.h"
#include "walk.h"

typedef struct {
    const et_tensor *input;  /* ..., in */
    const et_tensor *weight; /* out, in */
    et_tensor *out;          /* ..., out */
    const int32_t *bias;     /* out, or NULL */
    const int32_t *sums; /* out, or NULL: bias and input offset times the weights' sum, for CPUs with MVE */
    int32_t input_offset;
    int32_t filter_offset;
    int32_t output_offset;
    int32_t multiplier;
    int32_t shift;
    int32_t max;
    int32_t min;
} et_linear;

static bool shapes_match(const et_linear *linear) {
    const et_tensor *input = linear->input;
    const uint32_t last = input->ndim - 1u;
    int32_t sizes[ET_MAX_DIMS];
    memcpy(sizes, input->sizes, sizeof sizes);
    sizes[last] = linear->weight->sizes[0];
    return input->nbytes != 0 && input->sizes[last] == linear->weight->sizes[1] &&
           et_resize(linear->out, sizes, input->ndim);
}

/* quantized_linear(input, weights, bias?, kernel_sum?, input_offset, filter_offset, output_offset,
 * requantize_multipliers, requantize_shifts, activation_max, activation_min, *, out) */
static const char *read_arguments(const et_call *call, et_linear *linear) {
    linear->input = et_arg_tensor(call, 0);
    linear->weight = et_arg_tensor(call, 1);
    linear->out = et_arg_out(call, 11);
    if (!et_is_type(linear->input, ET_CHAR) || !et_is(linear->weight, ET_CHAR, 2) ||
        !et_is_type(linear->out, ET_CHAR) || linear->input->ndim < 1) {
        return "only int8";
    }
    if (!shapes_match(linear) || !et_read_int32s(call, 2, linear->weight->sizes[0], &linear->bias) ||
        !et_read_int32s(call, 3, linear->weight->sizes[0], &linear->sums)) {
        return "sizes do not match";
    }
    if (et_arg_list_count(call, 7) != 1 || et_arg_list_count(call, 8) != 1) {
        return "more than one scale";
    }
    if (!et_arg_int(call, 4, -INT8_MAX, -INT8_MIN, &linear->input_offset) ||
        !et_arg_int(call, 5, -INT8_MAX, -INT8_MIN, &linear->filter_offset) ||
        !et_arg_int(call, 6, INT8_MIN, INT8_MAX, &linear->output_offset) ||
        !et_arg_list_int(call, 7, 0, INT32_MIN, INT32_MAX, &linear->multiplier) ||
        !et_arg_list_int(call, 8, 0, ET_SHIFT_MIN, ET_SHIFT_MAX, &linear->shift) ||
        !et_arg_int(call, 9, INT8_MIN, INT8_MAX, &linear->max) ||
        !et_arg_int(call, 10, INT8_MIN, INT8_MAX, &linear->min)) {
        return "quantization";
    }
    if (linear->sums != NULL) {
        linear->input_offset = 0; /* is in the sums, which take the bias's place */
        linear->bias = linear->sums;
    }
    return NULL;
}

static void multiply_row(const et_linear *linear, const int8_t *x, int8_t *y) {
    const int8_t *w = et_int8s(linear->weight);
    const int32_t y_step = linear->out->strides[linear->out->ndim - 1];
    const et_dot_steps steps = {
        .count = linear->weight->sizes[1],
        .x_step = linear->input->strides[linear->input->ndim - 1],
        .w_step = linear->weight->strides[1],
        .x_offset = linear->input_offset,
        .w_offset = linear->filter_offset,
    };
    for (int32_t i = 0; i < linear->weight->sizes[0]; i++) {
        uint32_t sum = et_dot_offsets(x, w, &steps);
        sum += linear->bias != NULL ? (uint32_t)linear->bias[i] : 0u;
        int32_t scaled = et_requantize((int32_t)sum, linear->multiplier, linear->shift);
        *y = et_narrow(scaled, linear->output_offset, linear->min, linear->max);
        w += linear->weight->strides[0];
        y += y_step;
    }
}

static const char *quantized_linear(const et_call *call) {
    et_linear linear;
    const char *refusal = read_arguments(call, &linear);
    if (refusal != NULL) {
        return refusal;
    }
    et_walk from = {0};
    et_walk to = {0};
    et_walk_add_dims(&from, linear.input, linear.input->ndim - 1u);
    et_walk_add_dims(&to, linear.out, linear.out->ndim - 1u);
    const uint32_t rows = et_numel(linear.input) / (uint32_t)linear.weight->sizes[1];
    for (uint32_t row = 0; row < rows; row++) {
        multiply_row(&linear, et_int8s(linear.input) + from.offset, et_out_int8s(linear.out) + to.offset);
        et_walk_next(&from);
        et_walk_next(&to);
    }
    return NULL;
}

const et_kernel et_cortex_m_linear = {"cortex_m::quantized_linear", "out", "native_call_quantized_linear.out",
                                      12, quantized_linear};
