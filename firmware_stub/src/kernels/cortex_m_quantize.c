// SPDX-License-Identifier: Apache-2.0
#include "arguments.h"
#include "kernels.h"
#include "requantize.h"

typedef struct {
    const etd_tensor *input;
    etd_tensor *out;
    double scale;
    int32_t zero_point;
    int32_t min;
    int32_t max;
} etd_quantization;

/* quantize_per_tensor and dequantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, *,
 * out). dtype is the quantized type. */
static const char *read_arguments(const etd_call *call, uint8_t from, uint8_t to,
                                  etd_quantization *quantization) {
    int32_t dtype;
    quantization->input = etd_arg_tensor(call, 0);
    quantization->out = etd_arg_out(call, 6);
    if (!etd_is_type(quantization->input, from) || !etd_is_type(quantization->out, to) ||
        !etd_arg_int(call, 5, ETD_CHAR, ETD_CHAR, &dtype)) {
        return "supports only between float32 and int8";
    }
    if (!etd_take_layout(quantization->out, quantization->input)) {
        return "input and output differ in shape or layout";
    }
    if (!etd_arg_number(call, 1, &quantization->scale) || !(quantization->scale > 0.0) ||
        !etd_arg_int(call, 2, INT8_MIN, INT8_MAX, &quantization->zero_point) ||
        !etd_arg_int(call, 3, INT8_MIN, INT8_MAX, &quantization->min) ||
        !etd_arg_int(call, 4, quantization->min, INT8_MAX, &quantization->max)) {
        return "invalid scale, zero point or range";
    }
    return NULL;
}

static const char *quantize(const etd_call *call) {
    etd_quantization q;
    const char *refusal = read_arguments(call, ETD_FLOAT, ETD_CHAR, &q);
    if (refusal != NULL) {
        return refusal;
    }
    const float *x = etd_floats(q.input);
    int8_t *y = etd_out_int8s(q.out);
    const uint32_t numel = etd_numel(q.out);
    const float inverse =
        (float)(1.0 / q.scale); /* the reference multiplies; a division would round differently */
    for (uint32_t i = 0; i < numel; i++) {
        y[i] = etd_quantize(x[i] * inverse, q.zero_point, q.min, q.max);
    }
    return NULL;
}

static const char *dequantize(const etd_call *call) {
    etd_quantization q;
    const char *refusal = read_arguments(call, ETD_CHAR, ETD_FLOAT, &q);
    if (refusal != NULL) {
        return refusal;
    }
    const int8_t *x = etd_int8s(q.input);
    float *y = etd_out_floats(q.out);
    const uint32_t numel = etd_numel(q.out);
    for (uint32_t i = 0; i < numel; i++) {
        y[i] = (float)(x[i] - q.zero_point) * (float)q.scale;
    }
    return NULL;
}

const etd_kernel etd_cortex_m_quantize = {"cortex_m::quantize_per_tensor", "out",
                                          "native_call_quantize_per_tensor.out", 7, quantize};
const etd_kernel etd_cortex_m_dequantize = {"cortex_m::dequantize_per_tensor", "out",
                                            "native_call_dequantize_per_tensor.out", 7, dequantize};
