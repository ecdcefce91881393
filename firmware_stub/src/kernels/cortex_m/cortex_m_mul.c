// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/int8_pairs.h"
#include "../support/requantize.h"

typedef struct {
    int32_t a_zero_point;
    int32_t b_zero_point;
    int32_t zero_point;
    int32_t multiplier;
    int32_t shift;
} etd_quantized_mul;

static int8_t multiply_elements(const void *context, int8_t a, int8_t b) {
    const etd_quantized_mul *mul = context;
    const int32_t product = (a - mul->a_zero_point) * (b - mul->b_zero_point);
    return etd_narrow(etd_requantize(product, mul->multiplier, mul->shift), mul->zero_point, INT8_MIN,
                      INT8_MAX);
}

/* quantized_mul(self, self_zero_point, other, other_zero_point, output_zero_point, output_multiplier,
 * output_shift, *, out) */
static const char *quantized_mul(const etd_call *call) {
    etd_int8_pairs pairs;
    etd_quantized_mul mul;
    const char *refusal = etd_read_int8_pairs(call, 0, 2, 7, &pairs);
    if (refusal != NULL) {
        return refusal;
    }
    /* hardswish is exported with a zero point outside of int8. Products of int16 cannot overflow. */
    if (!etd_arg_int(call, 1, INT16_MIN, INT16_MAX, &mul.a_zero_point) ||
        !etd_arg_int(call, 3, INT16_MIN, INT16_MAX, &mul.b_zero_point) ||
        !etd_arg_int(call, 4, INT8_MIN, INT8_MAX, &mul.zero_point) ||
        !etd_arg_int(call, 5, 0, INT32_MAX, &mul.multiplier) ||
        !etd_arg_int(call, 6, ETD_SHIFT_MIN, ETD_SHIFT_MAX, &mul.shift)) {
        return "invalid quantization parameters";
    }
    etd_map_int8_pairs(&pairs, multiply_elements, &mul);
    return NULL;
}

const etd_kernel etd_cortex_m_mul = {"cortex_m::quantized_mul", "out", "native_call_quantized_mul.out", 8,
                                     quantized_mul};
