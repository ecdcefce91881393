// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "../kernels.h"
#include "../support/number.h"

/* choose_qparams(input, quant_min, quant_max, eps, dtype, *, scale_out, zero_point_out): computes the
 * scale and zero point that map all elements and 0 into the range. Uses float32, as PyTorch does. */
static const char *choose_qparams(const etd_call *call) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *scale_out = etd_arg_out(call, 5);
    etd_tensor *zero_point_out = etd_arg_out(call, 6);
    const int32_t one = 1;
    int32_t min;
    int32_t max;
    int32_t dtype;
    double epsilon;
    if (!etd_is_type(input, ETD_FLOAT) || input->nbytes == 0) {
        return "supports only float32 that is not empty";
    }
    if (!etd_arg_int(call, 1, INT16_MIN, INT16_MAX, &min) ||
        !etd_arg_int(call, 2, min + 1, INT16_MAX, &max) || !etd_arg_number(call, 3, &epsilon) ||
        !(epsilon >= 0.0) || !etd_arg_int(call, 4, ETD_BYTE, ETD_INT, &dtype)) {
        return "invalid range, eps or dtype";
    }
    if (!etd_is_type(scale_out, ETD_DOUBLE) || !etd_is_type(zero_point_out, ETD_LONG) ||
        !etd_resize(scale_out, &one, 1) || !etd_resize(zero_point_out, &one, 1)) {
        return "invalid type or size of an output";
    }
    const uint32_t numel = etd_numel(input);
    float low = 0.0f;
    float high = 0.0f;
    for (uint32_t i = 0; i < numel; i++) {
        const float x = etd_floats(input)[i];
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    const float fitting = (high - low) / (float)(max - min);
    const float scale = fitting > (float)epsilon ? fitting : (float)epsilon;
    const float zero_point = (float)min - (scale > 0.0f ? rintf(low / scale) : 0.0f);
    const float raised = zero_point >= (float)min ? zero_point : (float)min;
    const etd_number integer = {.integer = (int64_t)(raised > (float)max ? (float)max : raised)};
    etd_store_number(scale_out, 0, (etd_number){.is_real = true, .real = (double)scale});
    etd_store_number(zero_point_out, 0, integer);
    return NULL;
}

const etd_kernel etd_choose_qparams = {"quantized_decomposed::choose_qparams", "Tensor_out",
                                       "native_call_choose_qparams.Tensor_out", 7, choose_qparams};
