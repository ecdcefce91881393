// SPDX-License-Identifier: Apache-2.0
#include <float.h>

#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/requantize.h"

typedef struct {
    const etd_tensor *a;
    const etd_tensor *b;
    etd_tensor *out;
    int32_t a_zero_point;
    int32_t b_zero_point;
    int32_t zero_point;
    int32_t min; /* of the element type */
    int32_t max;
    float scale;
} etd_quantized_div;

static bool read_tensors(const etd_call *call, etd_quantized_div *div) {
    div->a = etd_arg_tensor(call, 0);
    div->b = etd_arg_tensor(call, 2);
    div->out = etd_arg_out(call, 6);
    if (etd_is_type(div->a, ETD_SHORT)) {
        div->min = INT16_MIN;
        div->max = INT16_MAX;
    } else if (etd_is_type(div->a, ETD_CHAR)) {
        div->min = INT8_MIN;
        div->max = INT8_MAX;
    } else {
        return false;
    }
    return etd_is_type(div->b, div->a->dtype) && etd_is_type(div->out, div->a->dtype);
}

/* quantized_div(self, self_zero_point, other, other_zero_point, output_zero_point, output_scale, *, out) */
static const char *read_arguments(const etd_call *call, etd_quantized_div *div) {
    double scale;
    if (!read_tensors(call, div)) {
        return "supports only int8 or int16";
    }
    if (!etd_take_layout(div->out, div->a) || !etd_same_layout(div->b, div->out)) {
        return "inputs and output differ in shape or layout";
    }
    if (!etd_arg_int(call, 1, div->min, div->max, &div->a_zero_point) ||
        !etd_arg_int(call, 3, div->min, div->max, &div->b_zero_point) ||
        !etd_arg_int(call, 4, div->min, div->max, &div->zero_point) || !etd_arg_number(call, 5, &scale) ||
        !(scale > 0.0) || !(scale <= (double)FLT_MAX)) {
        return "invalid zero points or scale";
    }
    div->scale = (float)scale;
    return NULL;
}

/* In float32, as in the reference. Division by zero gives 0. */
static int32_t divide(const etd_quantized_div *div, int32_t a, int32_t b) {
    const float divisor = (float)(b - div->b_zero_point);
    const float quotient = divisor != 0.0f ? (float)(a - div->a_zero_point) / divisor : 0.0f;
    return etd_round_and_clamp(quotient * div->scale, div->zero_point, div->min, div->max);
}

static const char *quantized_div(const etd_call *call) {
    etd_quantized_div div;
    const char *refusal = read_arguments(call, &div);
    if (refusal != NULL) {
        return refusal;
    }
    const uint32_t numel = etd_numel(div.out);
    for (uint32_t i = 0; i < numel; i++) {
        if (div.min == INT8_MIN) {
            etd_out_int8s(div.out)[i] = (int8_t)divide(&div, etd_int8s(div.a)[i], etd_int8s(div.b)[i]);
        } else {
            etd_out_int16s(div.out)[i] = (int16_t)divide(&div, etd_int16s(div.a)[i], etd_int16s(div.b)[i]);
        }
    }
    return NULL;
}

const etd_kernel etd_cortex_m_div = {"cortex_m::quantized_div", "out", "native_call_quantized_div.out", 7,
                                     quantized_div};
