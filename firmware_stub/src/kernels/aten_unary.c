// SPDX-License-Identifier: Apache-2.0
/* Functions of one tensor: (self, *, out). */
#include <math.h>

#include "elementwise.h"
#include "kernels.h"

#define KERNEL(name)                                                                                         \
    static const char *run_##name(const etd_call *call) {                                                    \
        return etd_run_unary(call, &name##_operation);                                                       \
    }                                                                                                        \
    const etd_kernel etd_aten_##name = {"aten::" #name, "out", "native_call_" #name ".out", 2, run_##name};

/* Functions of float32 only. */
#define FUNCTION(name, expression)                                                                           \
    ETD_LINE_FN(name##_floats, float, expression)                                                            \
    static const etd_operation name##_operation = {.floats = name##_floats};                                 \
    KERNEL(name)

FUNCTION(ceil, ceilf(a))
FUNCTION(cos, cosf(a))
FUNCTION(exp, expf(a))
FUNCTION(floor, floorf(a))
FUNCTION(log, logf(a))
FUNCTION(reciprocal, 1.0f / a)
FUNCTION(round, rintf(a)) /* ties to even */
FUNCTION(rsqrt, 1.0f / sqrtf(a))
FUNCTION(sin, sinf(a))
FUNCTION(sqrt, sqrtf(a))

ETD_LINE_FN(neg_floats, float, -a)
ETD_LINE_FN(neg_int32s, uint32_t, 0u - a)
ETD_LINE_FN(neg_int64s, uint64_t, 0u - a)
static const etd_operation neg_operation = {ETD_NUMBER_FNS(neg)};
KERNEL(neg)

ETD_LINE_FN(abs_floats, float, fabsf(a))
ETD_LINE_FN(abs_int32s, uint32_t, a > INT32_MAX ? 0u - a : a)
ETD_LINE_FN(abs_int64s, uint64_t, a > INT64_MAX ? 0u - a : a)
static const etd_operation abs_operation = {ETD_NUMBER_FNS(abs)};
KERNEL(abs)
