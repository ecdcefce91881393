// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/int8_pairs.h"

/* minimum and maximum(self, other, *, out); NaN if either is NaN */
#define CHOICE(name, sign, int8s)                                                                            \
    ETD_LINE_FN(name##_floats, float, a sign b || a != a ? a : b)                                            \
    ETD_LINE_FN(name##_doubles, double, a sign b || a != a ? a : b)                                          \
    ETD_LINE_FN(name##_int32s, int32_t, a sign b ? a : b)                                                    \
    ETD_LINE_FN(name##_int64s, int64_t, a sign b ? a : b)                                                    \
    static const char *name(const etd_call *call) {                                                          \
        static const etd_operation operation = {ETD_ALL_NUMBER_FNS(name)};                                   \
        return etd_run_int8_pairs(call, 1, 2, int8s, NULL) == NULL ? NULL                                    \
                                                                   : etd_run_binary(call, &operation);       \
    }                                                                                                        \
    const etd_kernel etd_aten_##name = {"aten::" #name, "out", "native_call_" #name ".out", 3, name};

CHOICE(minimum, <, etd_smaller_int8s)
CHOICE(maximum, >, etd_larger_int8s)
