// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/requantize.h"

typedef struct {
    const etd_tensor *input;
    etd_tensor *out;
    double scale;
    int32_t zero_point;
    int32_t min;
    int32_t max;
} etd_quantization;

/* What inputs are multiplied with. */
typedef struct {
    float value;
    uint32_t mantissa; /* from bit 31 on; 0 if the exponent is not supported */
    int32_t exponent;  /* without the biases of both factors */
} etd_factor;

static uint32_t float_bits(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static etd_factor split_factor(float value) {
    const uint32_t bits = float_bits(value); /* positive */
    const uint32_t exponent = bits >> 23;
    /* Up to this limit products with zeros and subnormal numbers are below a half. */
    const bool supported = exponent != 0 && exponent <= 200;
    /* The product of two mantissas below 2 is below 4, so its first bit is worth 2. */
    return (etd_factor){value, supported ? bits << 8 | 0x80000000u : 0u, (int32_t)exponent - 2 * 127 + 1};
}

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

#if defined(__ARM_FP)
/* Adding it leaves an integer, rounded as the FPU rounds, in the last bits of the mantissa. */
#define ROUNDING_OFFSET 12582912.0f /* 1.5 * 2^23 */

/* As etd_quantize of x * scale. */
static int8_t quantize_element(const etd_quantization *q, const etd_factor *factor, float x) {
    const float limit = 1024.0f; /* everything beyond is clamped, whatever the zero point */
    float scaled = x * factor->value;
    scaled = scaled >= -limit ? scaled : -limit; /* also NaN */
    scaled = scaled <= limit ? scaled : limit;
    const int32_t rounded = (int32_t)(float_bits(scaled + ROUNDING_OFFSET) - float_bits(ROUNDING_OFFSET));
    return (int8_t)etd_clamp(rounded + q->zero_point, q->min, q->max);
}
#else
/* Returns number / 2^bits, rounded to nearest, ties to even. */
static uint32_t shift_to_even(uint32_t number, uint32_t bits) {
    const uint32_t rest = number & ((1u << bits) - 1u);
    const uint32_t quotient = number >> bits;
    return quotient + (rest + (quotient & 1u) > 1u << (bits - 1u) ? 1u : 0u);
}

/* As etd_quantize of x * scale, in integers: a CPU without an FPU computes floats ten times slower. */
static int8_t quantize_element(const etd_quantization *q, const etd_factor *factor, float x) {
    const uint32_t bits = float_bits(x);
    const int32_t exponent = (int32_t)(bits >> 23 & 0xFFu);
    if (exponent == 0xFF || factor->mantissa == 0) {
        return etd_quantize(x * factor->value, q->zero_point, q->min, q->max);
    }
    /* The product is `high` * 2^-31 * 2^power. What does not fit is kept as the last bit. */
    const uint64_t product = (uint64_t)(bits << 8 | 0x80000000u) * factor->mantissa;
    uint32_t high = (uint32_t)(product >> 32) | ((uint32_t)product != 0 ? 1u : 0u);
    int32_t power = exponent + factor->exponent;
    if ((high & 0x80000000u) == 0) {
        high <<= 1;
        power--;
    }
    uint32_t magnitude = 1024; /* everything beyond is clamped, whatever the zero point */
    if (power < -1) {
        magnitude = 0; /* below a half, or just a half, which is rounded to even */
    } else if (power < 10) {
        /* First to a float's 24 bits, then to an integer, as the reference rounds. */
        magnitude = shift_to_even(shift_to_even(high, 8), (uint32_t)(23 - power));
    }
    const int32_t rounded = (bits >> 31) != 0 ? -(int32_t)magnitude : (int32_t)magnitude;
    return (int8_t)etd_clamp(rounded + q->zero_point, q->min, q->max);
}
#endif

static const char *quantize(const etd_call *call) {
    etd_quantization q;
    const char *refusal = read_arguments(call, ETD_FLOAT, ETD_CHAR, &q);
    if (refusal != NULL) {
        return refusal;
    }
    const float *x = etd_floats(q.input);
    int8_t *y = etd_out_int8s(q.out);
    const uint32_t numel = etd_numel(q.out);
    const etd_factor factor = split_factor(
        (float)(1.0 / q.scale)); /* the reference multiplies; a division would round differently */
    for (uint32_t i = 0; i < numel; i++) {
        y[i] = quantize_element(&q, &factor, x[i]);
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
