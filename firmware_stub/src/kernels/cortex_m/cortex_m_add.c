// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/int8_pairs.h"
#include "../support/requantize.h"

static bool read_side(const etd_call *call, uint32_t first, etd_int8_side *side) {
    return etd_arg_int(call, first, INT8_MIN, INT8_MAX, &side->zero_point) &&
           etd_arg_int(call, first + 1, -INT32_MAX, INT32_MAX, &side->multiplier) &&
           etd_arg_int(call, first + 2, ETD_SHIFT_MIN, ETD_SHIFT_MAX, &side->shift);
}

/* quantized_add(self, self_zero_point, self_multiplier, self_shift, other, other_zero_point,
 * other_multiplier, other_shift, output_zero_point, output_multiplier, output_shift, activation_min,
 * activation_max, *, out); a - b is exported with a negative multiplier */
static const char *quantized_add(const etd_call *call) {
    etd_int8_scales add;
    if (!read_side(call, 1, &add.a) || !read_side(call, 5, &add.b) || !read_side(call, 8, &add.out) ||
        !etd_arg_int(call, 11, INT8_MIN, INT8_MAX, &add.min) ||
        !etd_arg_int(call, 12, add.min, INT8_MAX, &add.max)) {
        return "invalid quantization parameters";
    }
    return etd_run_int8_pairs(call, 4, 13, etd_add_int8s, &add);
}

const etd_kernel etd_cortex_m_add = {"cortex_m::quantized_add", "out", "native_call_quantized_add.out", 14,
                                     quantized_add};
