// SPDX-License-Identifier: Apache-2.0
/* Comparisons of two tensors, or of a tensor and a number: (self, other, *, out). The output is bool. */
#include "../kernels.h"
#include "../support/elementwise.h"

#define COMPARISON(name, sign)                                                                               \
    ETD_LINE_FN_TO(name##_floats, float, uint8_t, a sign b)                                                  \
    ETD_LINE_FN_TO(name##_doubles, double, uint8_t, a sign b)                                                \
    ETD_LINE_FN_TO(name##_int32s, int32_t, uint8_t, a sign b)                                                \
    ETD_LINE_FN_TO(name##_int64s, int64_t, uint8_t, a sign b)                                                \
    ETD_LINE_FN_TO(name##_bools, uint8_t, uint8_t, a sign b)                                                 \
    static const etd_operation name = {ETD_ALL_NUMBER_FNS(name), .bools = name##_bools,                      \
                                       .gives_truth = true};                                                 \
    static const char *name##_tensor(const etd_call *call) {                                                 \
        return etd_run_binary(call, &(name));                                                                \
    }                                                                                                        \
    static const char *name##_scalar(const etd_call *call) {                                                 \
        return etd_run_with_scalar(call, &(name));                                                           \
    }                                                                                                        \
    const etd_kernel etd_aten_##name = {"aten::" #name, "Tensor_out", "native_call_" #name ".Tensor_out", 3, \
                                        name##_tensor};                                                      \
    const etd_kernel etd_aten_##name##_scalar = {"aten::" #name, "Scalar_out",                               \
                                                 "native_call_" #name ".Scalar_out", 3, name##_scalar};

COMPARISON(eq, ==)
COMPARISON(ne, !=)
COMPARISON(lt, <)
COMPARISON(le, <=)
COMPARISON(gt, >)
COMPARISON(ge, >=)
