// SPDX-License-Identifier: Apache-2.0
/* Bitwise logic of integers and booleans, and shifts of integers: (self, other, *, out). */
#include "../kernels.h"
#include "../support/elementwise.h"

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

/* Shifts by less than 0 or by all bits are undefined in C. PyTorch gives 0 to the left; to the right it gives
 * what a shift by all bits leaves, the sign. As an unsigned number, a negative distance is too large as well.
 */
ETD_LINE_FN(left_int32s, uint32_t, b < 32u ? a << b : 0u)
ETD_LINE_FN(left_int64s, uint64_t, b < 64u ? a << b : 0u)
ETD_LINE_FN(left_bytes, uint8_t, (uint8_t)(b < 8u ? a << b : 0))

/* C leaves open what a right shift makes of a negative number, so its complement is shifted. */
static int64_t shift_down(int64_t number, int64_t distance) {
    const int64_t magnitude = number < 0 ? ~number : number;
    const int64_t rest = (uint64_t)distance < 63u ? magnitude >> (uint32_t)distance : 0;
    return number < 0 ? ~rest : rest;
}

ETD_LINE_FN(right_int32s, int32_t, (int32_t)shift_down(a, b))
ETD_LINE_FN(right_int64s, int64_t, shift_down(a, b))
ETD_LINE_FN(right_int8s, int8_t, (int8_t)shift_down(a, b))
ETD_LINE_FN(right_uint8s, uint8_t, (uint8_t)(b < 8u ? a >> b : 0))

static const etd_operation shift_left = {.int32s = left_int32s, .int64s = left_int64s, .bytes = left_bytes};
static const etd_operation shift_right = {
    .int32s = right_int32s, .int64s = right_int64s, .bytes = right_int8s};
static const etd_operation shift_right_unsigned = {
    .int32s = right_int32s, .int64s = right_int64s, .bytes = right_uint8s};

static const etd_operation *right_shift_of(const etd_call *call) {
    return etd_is_type(etd_arg_tensor(call, 0), ETD_BYTE) ? &shift_right_unsigned : &shift_right;
}

static const char *left_by_tensor(const etd_call *call) {
    return etd_run_binary(call, &shift_left);
}

static const char *left_by_scalar(const etd_call *call) {
    return etd_run_with_scalar(call, &shift_left);
}

static const char *right_by_tensor(const etd_call *call) {
    return etd_run_binary(call, right_shift_of(call));
}

static const char *right_by_scalar(const etd_call *call) {
    return etd_run_with_scalar(call, right_shift_of(call));
}

/* Python's << and >> are exported as __lshift__ and __rshift__. */
ETD_ATEN_KERNEL(bitwise_left_shift, "bitwise_left_shift", "Tensor_out", 3, left_by_tensor)
ETD_ATEN_KERNEL(bitwise_left_shift_scalar, "bitwise_left_shift", "Tensor_Scalar_out", 3, left_by_scalar)
ETD_ATEN_KERNEL(bitwise_right_shift, "bitwise_right_shift", "Tensor_out", 3, right_by_tensor)
ETD_ATEN_KERNEL(bitwise_right_shift_scalar, "bitwise_right_shift", "Tensor_Scalar_out", 3, right_by_scalar)
ETD_ATEN_KERNEL(lshift, "__lshift__", "Tensor_out", 3, left_by_tensor)
ETD_ATEN_KERNEL(lshift_scalar, "__lshift__", "Scalar_out", 3, left_by_scalar)
ETD_ATEN_KERNEL(rshift, "__rshift__", "Tensor_out", 3, right_by_tensor)
ETD_ATEN_KERNEL(rshift_scalar, "__rshift__", "Scalar_out", 3, right_by_scalar)
