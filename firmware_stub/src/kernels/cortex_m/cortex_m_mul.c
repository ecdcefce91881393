// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/int8_pairs.h"
#include "../support/requantize.h"

/* quantized_mul(self, self_zero_point, other, other_zero_point, output_zero_point, output_multiplier,
 * output_shift, *, out) */
static const char *quantized_mul(const etd_call *call) {
    etd_int8_scales mul = {.min = INT8_MIN, .max = INT8_MAX};
    /* hardswish is exported with a zero point outside of int8. Products of int16 cannot overflow. */
    if (!etd_arg_int(call, 1, INT16_MIN, INT16_MAX, &mul.a.zero_point) ||
        !etd_arg_int(call, 3, INT16_MIN, INT16_MAX, &mul.b.zero_point) ||
        !etd_arg_int(call, 4, INT8_MIN, INT8_MAX, &mul.out.zero_point) ||
        !etd_arg_int(call, 5, 0, INT32_MAX, &mul.out.multiplier) ||
        !etd_arg_int(call, 6, ETD_SHIFT_MIN, ETD_SHIFT_MAX, &mul.out.shift)) {
        return "invalid quantization parameters";
    }
    return etd_run_int8_pairs(call, 2, 7, etd_multiply_int8s, &mul);
}

const etd_kernel etd_cortex_m_mul = {"cortex_m::quantized_mul", "out", "native_call_quantized_mul.out", 8,
                                     quantized_mul};
