// SPDX-License-Identifier: Apache-2.0
/* Logical operations. Elements other than 0 are true; the output is bool. */
#include "../kernels.h"
#include "../support/elementwise.h"

#define LOGICAL(name, args, run, expression)                                                                 \
    ETD_LINE_FN_TO(name##_floats, float, uint8_t, expression)                                                \
    ETD_LINE_FN_TO(name##_int32s, int32_t, uint8_t, expression)                                              \
    ETD_LINE_FN_TO(name##_int64s, int64_t, uint8_t, expression)                                              \
    ETD_LINE_FN_TO(name##_bools, uint8_t, uint8_t, expression)                                               \
    static const char *name(const etd_call *call) {                                                          \
        static const etd_operation operation = {ETD_NUMBER_FNS(name), .bools = name##_bools,                 \
                                                .gives_truth = true, .of_truths = true};                     \
        return run(call, &operation);                                                                        \
    }                                                                                                        \
    const etd_kernel etd_aten_##name = {"aten::" #name, "out", "native_call_" #name ".out", args, name};

LOGICAL(logical_and, 3, etd_run_binary, a != 0 && b != 0)
LOGICAL(logical_or, 3, etd_run_binary, a != 0 || b != 0)
LOGICAL(logical_xor, 3, etd_run_binary, (a != 0) != (b != 0))
LOGICAL(logical_not, 2, etd_run_unary, a == 0)
