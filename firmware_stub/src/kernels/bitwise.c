// SPDX-License-Identifier: Apache-2.0
/* Bitwise logic of integers and booleans: (self, other, *, out). */
#include "elementwise.h"
#include "kernels.h"

#define BITWISE(name, sign)                                                                                  \
    ETD_LINE_FN(name##_int32s, uint32_t, a sign b)                                                           \
    ETD_LINE_FN(name##_int64s, uint64_t, a sign b)                                                           \
    ETD_LINE_FN(name##_bytes, uint8_t, (uint8_t)(a sign b))                                                  \
    static const etd_operation name = {                                                                      \
        .int32s = name##_int32s, .int64s = name##_int64s, .bools = name##_bytes, .bytes = name##_bytes};     \
    static const char *name##_tensor(const etd_call *call) {                                                 \
        return etd_run_binary(call, &(name));                                                                \
    }                                                                                                        \
    static const char *name##_scalar(const etd_call *call) {                                                 \
        return etd_run_with_scalar(call, &(name));                                                           \
    }                                                                                                        \
    ETD_ATEN_KERNEL(name, #name, "Tensor_out", 3, name##_tensor)                                             \
    ETD_ATEN_KERNEL(name##_scalar, #name, "Scalar_out", 3, name##_scalar)

BITWISE(bitwise_and, &)
BITWISE(bitwise_or, |)
BITWISE(bitwise_xor, ^)

/* bitwise_not(self, *, out) negates booleans. */
ETD_LINE_FN(not_int32s, uint32_t, ~a)
ETD_LINE_FN(not_int64s, uint64_t, ~a)
ETD_LINE_FN(not_bytes, uint8_t, (uint8_t)~a)
ETD_LINE_FN(not_bools, uint8_t, a == 0)

static const etd_operation complement = {
    .int32s = not_int32s, .int64s = not_int64s, .bools = not_bools, .bytes = not_bytes};

static const char *bitwise_not(const etd_call *call) {
    return etd_run_unary(call, &complement);
}

ETD_ATEN_KERNEL(bitwise_not, "bitwise_not", "out", 2, bitwise_not)
