// SPDX-License-Identifier: Apache-2.0
/* Adds tensors of uint8, each with a scale and a zero point of its own. ExecuTorch has no other type here:
 * its passes write this operator only for uint8. */
#include <math.h>

#include "../kernels.h"
#include "../support/arguments.h"

/* A tensor of integers from min to max. */
typedef struct {
    float scale;
    int32_t zero_point;
    int32_t min;
    int32_t max;
} etd_quantization;

/* Reads scale, zero point and range from argument `first` on. */
static bool read_quantization(const etd_call *call, uint32_t first, etd_quantization *quantization) {
    double scale;
    if (!etd_arg_number(call, first, &scale) || !(scale > 0.0) || isinf(scale)) {
        return false;
    }
    quantization->scale = (float)scale;
    return etd_arg_int(call, first + 1, 0, UINT8_MAX, &quantization->zero_point) &&
           etd_arg_int(call, first + 2, 0, UINT8_MAX, &quantization->min) &&
           etd_arg_int(call, first + 3, quantization->min, UINT8_MAX, &quantization->max);
}

static float real_at(const etd_tensor *tensor, const etd_quantization *quantization, uint32_t i) {
    return (float)(tensor->data[i] - quantization->zero_point) * quantization->scale;
}

/* add(a, a_scale, a_zero_point, a_quant_min, a_quant_max, b, the same of b, the same of out, *, out) */
static const char *add(const etd_call *call) {
    const etd_tensor *a = etd_arg_tensor(call, 0);
    const etd_tensor *b = etd_arg_tensor(call, 5);
    etd_tensor *out = etd_arg_out(call, 14);
    etd_quantization of_a;
    etd_quantization of_b;
    etd_quantization of_out;
    if (!etd_is_type(a, ETD_BYTE) || !etd_is_type(b, ETD_BYTE) || !etd_is_type(out, ETD_BYTE)) {
        return "supports only uint8";
    }
    if (!read_quantization(call, 1, &of_a) || !read_quantization(call, 6, &of_b) ||
        !read_quantization(call, 10, &of_out)) {
        return "invalid scale, zero point or range";
    }
    if (!etd_same_layout(a, b) || !etd_take_layout(out, a)) {
        return "inputs and output differ in shape or layout";
    }
    const float inverse = 1.0f / of_out.scale;
    const uint32_t numel = etd_numel(out);
    for (uint32_t i = 0; i < numel; i++) {
        const float sum = real_at(a, &of_a, i) + real_at(b, &of_b, i);
        const float rounded = rintf(sum * inverse) + (float)of_out.zero_point;
        const float raised = rounded >= (float)of_out.min ? rounded : (float)of_out.min; /* also of NaN */
        const float clamped = raised > (float)of_out.max ? (float)of_out.max : raised;
        out->data[i] = (uint8_t)clamped;
    }
    return NULL;
}

const etd_kernel etd_decomposed_add = {"quantized_decomposed::add", "out", "native_call_add.out", 15, add};
