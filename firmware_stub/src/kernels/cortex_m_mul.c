#include "int8_pairs.h"
#include "kernels.h"
#include "requantize.h"

typedef struct {
    int32_t a_zero_point;
    int32_t b_zero_point;
    int32_t zero_point;
    int32_t multiplier;
    int32_t shift;
} et_quantized_mul;

static int8_t multiply_elements(const void *context, int8_t a, int8_t b) {
    const et_quantized_mul *mul = context;
    const int32_t product = (a - mul->a_zero_point) * (b - mul->b_zero_point);
    return et_narrow(et_requantize(product, mul->multiplier, mul->shift), mul->zero_point, INT8_MIN,
                     INT8_MAX);
}

/* quantized_mul(self, self_zero_point, other, other_zero_point, output_zero_point, output_multiplier,
 * output_shift, *, out) */
static const char *quantized_mul(const et_call *call) {
    et_int8_pairs pairs;
    et_quantized_mul mul;
    const char *refusal = et_read_int8_pairs(call, 0, 2, 7, &pairs);
    if (refusal != NULL) {
        return refusal;
    }
    if (!et_arg_int(call, 1, INT8_MIN, INT8_MAX, &mul.a_zero_point) ||
        !et_arg_int(call, 3, INT8_MIN, INT8_MAX, &mul.b_zero_point) ||
        !et_arg_int(call, 4, INT8_MIN, INT8_MAX, &mul.zero_point) ||
        !et_arg_int(call, 5, 0, INT32_MAX, &mul.multiplier) ||
        !et_arg_int(call, 6, ET_SHIFT_MIN, ET_SHIFT_MAX, &mul.shift)) {
        return "quantization";
    }
    et_map_int8_pairs(&pairs, multiply_elements, &mul);
    return NULL;
}

const et_kernel et_cortex_m_mul = {"cortex_m::quantized_mul", "out", "native_call_quantized_mul.out", 8,
                                   quantized_mul};
