// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/elementwise.h"

/* mul(self, other, *, out) */
ETD_LINE_FN(mul_floats, float, a *b)
ETD_LINE_FN(mul_doubles, double, a *b)
ETD_LINE_FN(mul_int32s, uint32_t, a *b)
ETD_LINE_FN(mul_int64s, uint64_t, a *b)

static const etd_operation operation = {ETD_ALL_NUMBER_FNS(mul)};

static const char *mul(const etd_call *call) {
    return etd_run_binary(call, &operation);
}

static const char *mul_scalar(const etd_call *call) {
    return etd_run_with_scalar(call, &operation);
}

const etd_kernel etd_aten_mul = {"aten::mul", "out", "native_call_mul.out", 3, mul};
const etd_kernel etd_aten_mul_scalar = {"aten::mul", "Scalar_out", "native_call_mul.Scalar_out", 3,
                                        mul_scalar};
