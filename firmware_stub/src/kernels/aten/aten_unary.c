// SPDX-License-Identifier: Apache-2.0
/* Functions of one tensor: (self, *, out). */
#include <math.h>

#include "../kernels.h"
#include "../support/elementwise.h"

#define KERNEL(name)                                                                                         \
    static const char *run_##name(const etd_call *call) {                                                    \
        return etd_run_unary(call, &name##_operation);                                                       \
    }                                                                                                        \
    const etd_kernel etd_aten_##name = {"aten::" #name, "out", "native_call_" #name ".out", 2, run_##name};

/* Functions of floats: integers become floats. */
#define FUNCTION(name, expression)                                                                           \
    ETD_LINE_FN(name##_floats, float, expression)                                                            \
    static const etd_operation name##_operation = {.floats = name##_floats};                                 \
    KERNEL(name)

FUNCTION(acos, acosf(a))
FUNCTION(acosh, acoshf(a))
FUNCTION(asin, asinf(a))
FUNCTION(asinh, asinhf(a))
FUNCTION(atan, atanf(a))
FUNCTION(atanh, atanhf(a))
FUNCTION(cos, cosf(a))
FUNCTION(cosh, coshf(a))
FUNCTION(erf, erff(a))
FUNCTION(exp, expf(a))
FUNCTION(exp2, exp2f(a))
FUNCTION(expm1, expm1f(a))
FUNCTION(log, logf(a))
FUNCTION(log10, log10f(a))
FUNCTION(log1p, log1pf(a))
FUNCTION(log2, log2f(a))
FUNCTION(reciprocal, 1.0f / a)
FUNCTION(rsqrt, 1.0f / sqrtf(a))
FUNCTION(sin, sinf(a))
FUNCTION(sinh, sinhf(a))
FUNCTION(sqrt, sqrtf(a))
FUNCTION(tan, tanf(a))

/* Rounding leaves integers as they are. */
ETD_LINE_FN(whole_int64s, int64_t, a)

#define ROUNDING(name, expression)                                                                           \
    ETD_LINE_FN(name##_floats, float, expression)                                                            \
    static const etd_operation name##_operation = {.floats = name##_floats, .int64s = whole_int64s};         \
    KERNEL(name)

ROUNDING(ceil, ceilf(a))
ROUNDING(floor, floorf(a))
ROUNDING(round, rintf(a)) /* ties to even */
ROUNDING(trunc, truncf(a))

ETD_LINE_FN(neg_floats, float, -a)
ETD_LINE_FN(neg_doubles, double, -a)
ETD_LINE_FN(neg_int32s, uint32_t, 0u - a)
ETD_LINE_FN(neg_int64s, uint64_t, 0u - a)
static const etd_operation neg_operation = {ETD_ALL_NUMBER_FNS(neg)};
KERNEL(neg)

ETD_LINE_FN(abs_floats, float, fabsf(a))
ETD_LINE_FN(abs_doubles, double, fabs(a))
ETD_LINE_FN(abs_int32s, uint32_t, a > INT32_MAX ? 0u - a : a)
ETD_LINE_FN(abs_int64s, uint64_t, a > INT64_MAX ? 0u - a : a)
static const etd_operation abs_operation = {ETD_ALL_NUMBER_FNS(abs)};
KERNEL(abs)

ETD_LINE_FN(sign_floats, float, (float)((a > 0.0f) - (a < 0.0f)) + (a != a ? a : 0.0f)) /* NaN stays NaN */
ETD_LINE_FN(sign_int32s, int32_t, (a > 0) - (a < 0))
ETD_LINE_FN(sign_int64s, int64_t, (a > 0) - (a < 0))
static const etd_operation sign_operation = {ETD_NUMBER_FNS(sign)};
KERNEL(sign)

ETD_LINE_FN_TO(isnan_floats, float, uint8_t, a != a)
ETD_LINE_FN_TO(isnan_doubles, double, uint8_t, a != a)
static const etd_operation isnan_operation = {
    .floats = isnan_floats, .doubles = isnan_doubles, .gives_truth = true};
KERNEL(isnan)

ETD_LINE_FN_TO(isinf_floats, float, uint8_t, isinf(a) != 0)
ETD_LINE_FN_TO(isinf_doubles, double, uint8_t, isinf(a) != 0)
static const etd_operation isinf_operation = {
    .floats = isinf_floats, .doubles = isinf_doubles, .gives_truth = true};
KERNEL(isinf)
