// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "../kernels.h"
#include "../support/elementwise.h"

/* pow(self, exponent, *, out) */
ETD_LINE_FN(pow_floats, float, powf(a, b))

/* Wraps. A negative exponent gives the integer part of a fraction: 0, unless the base is 1 or -1. */
static int64_t whole_power(int64_t base, int64_t exponent) {
    if (exponent < 0) {
        const int64_t sign = exponent % 2 == 0 ? 1 : base;
        return base == 1 || base == -1 ? sign : 0;
    }
    uint64_t power = 1;
    uint64_t square = (uint64_t)base;
    for (; exponent > 0; exponent /= 2) {
        power = exponent % 2 == 1 ? power * square : power;
        square *= square;
    }
    return (int64_t)power;
}

ETD_LINE_FN(pow_int32s, int32_t, (int32_t)whole_power(a, b))
ETD_LINE_FN(pow_int64s, int64_t, whole_power(a, b))

static const etd_operation operation = {ETD_NUMBER_FNS(pow)};

static const char *power(const etd_call *call) {
    return etd_run_binary(call, &operation);
}

static const char *power_scalar(const etd_call *call) {
    return etd_run_with_scalar(call, &operation);
}

/* pow(self, exponent, *, out) of a number and a tensor */
static const char *power_of_scalar(const etd_call *call) {
    const etd_tensor *exponent = etd_arg_tensor(call, 1);
    etd_scalar_operand self;
    const char *refusal = etd_arg_operand(call, 0, exponent, &self);
    return refusal != NULL ? refusal : etd_run_operands(call, &operation, &self.tensor, exponent, 2);
}

ETD_ATEN_KERNEL(pow_of_scalar, "pow", "Scalar_out", 3, power_of_scalar)

const etd_kernel etd_aten_pow = {"aten::pow", "Tensor_Tensor_out", "native_call_pow.Tensor_Tensor_out", 3,
                                 power};
const etd_kernel etd_aten_pow_scalar = {"aten::pow", "Tensor_Scalar_out", "native_call_pow.Tensor_Scalar_out",
                                        3, power_scalar};
