// SPDX-License-Identifier: Apache-2.0
/* Remainders, rounded quotients and angles. */
#include <math.h>

#include "../kernels.h"
#include "../support/elementwise.h"
#include "../support/number.h"

/* Returns the remainder with the sign of the divisor. */
static float float_remainder(float a, float b) {
    const float rest = fmodf(a, b);
    return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}

static int64_t truncated_rest(int64_t a, int64_t b) {
    return b == -1 ? 0 : a % b; /* the quotient of the smallest integer overflows */
}

static int64_t whole_remainder(int64_t a, int64_t b) {
    const int64_t rest = truncated_rest(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* floorf(a / b) can be off by one, because the quotient is rounded. The remainder is not used: of an infinite
 * divisor it can be infinite, too. */
static float float_floor(float a, float b) {
    if (b == 0.0f) {
        return a / b;
    }
    const float rest = fmodf(a, b);
    const float below = rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? 1.0f : 0.0f;
    const float quotient = (a - rest) / b - below;
    const float whole = floorf(quotient);
    if (quotient == 0.0f) {
        return copysignf(0.0f, a / b);
    }
    return quotient - whole > 0.5f ? whole + 1.0f : whole;
}

static int64_t whole_quotient(int64_t a, int64_t b) {
    return b == -1 ? (int64_t)(0u - (uint64_t)a) : a / b; /* wraps */
}

static int64_t whole_floor(int64_t a, int64_t b) {
    return whole_quotient(a, b) - (truncated_rest(a, b) != whole_remainder(a, b));
}

#define OPERATION(name, of_floats, of_integers)                                                              \
    ETD_LINE_FN(name##_floats, float, of_floats(a, b))                                                       \
    ETD_LINE_FN(name##_int32s, int32_t, (int32_t)of_integers(a, b))                                          \
    ETD_LINE_FN(name##_int64s, int64_t, of_integers(a, b))                                                   \
    static const etd_operation name = {ETD_NUMBER_FNS(name)};

static float truncated_quotient(float a, float b) {
    return truncf(a / b);
}

OPERATION(by_fmod, fmodf, truncated_rest)
OPERATION(by_remainder, float_remainder, whole_remainder)
OPERATION(by_floor, float_floor, whole_floor)
OPERATION(by_trunc, truncated_quotient, whole_quotient)

/* div without a rounding mode */
ETD_LINE_FN(quotient_floats, float, a / b)
static const etd_operation by_quotient = {.floats = quotient_floats};

static bool has_zero(const etd_tensor *integers) {
    const uint32_t numel = etd_numel(integers);
    for (uint32_t i = 0; i < numel; i++) {
        if (etd_load_number(integers, i).integer == 0) {
            return true;
        }
    }
    return false;
}

/* Divides by a tensor, or by a number in its place. Argument `out` is the output. */
static const char *divide(const etd_call *call, const etd_operation *operation, bool by_scalar,
                          uint32_t out) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    const etd_tensor *other;
    etd_scalar_operand number;
    if (by_scalar) {
        const char *refusal = etd_arg_operand(call, 1, self, &number);
        if (refusal != NULL) {
            return refusal;
        }
        other = &number.tensor;
    } else {
        other = etd_arg_tensor(call, 1);
    }
    if (operation->int64s != NULL && etd_is_numeric(self) && !etd_is_real(self->dtype) &&
        etd_is_numeric(other) && !etd_is_real(other->dtype) && has_zero(other)) {
        return "division by zero";
    }
    return etd_run_operands(call, operation, self, other, out);
}

/* fmod(self, other, *, out) */
static const char *fmod_tensor(const etd_call *call) {
    return divide(call, &by_fmod, false, 2);
}

static const char *fmod_scalar(const etd_call *call) {
    return divide(call, &by_fmod, true, 2);
}

/* remainder(self, other, *, out) */
static const char *remainder_tensor(const etd_call *call) {
    return divide(call, &by_remainder, false, 2);
}

static const char *remainder_scalar(const etd_call *call) {
    return divide(call, &by_remainder, true, 2);
}

/* floor_divide(self, other, *, out) */
static const char *floor_divide(const etd_call *call) {
    return divide(call, &by_floor, false, 2);
}

/* div(self, other, *, rounding_mode?, out) */
static const char *divide_by_mode(const etd_call *call, bool by_scalar) {
    if (etd_arg_is_none(call, 2)) {
        return divide(call, &by_quotient, by_scalar, 3);
    }
    if (etd_arg_is_text(call, 2, "floor")) {
        return divide(call, &by_floor, by_scalar, 3);
    }
    return etd_arg_is_text(call, 2, "trunc") ? divide(call, &by_trunc, by_scalar, 3) : "rounding_mode";
}

static const char *div_mode(const etd_call *call) {
    return divide_by_mode(call, false);
}

static const char *div_scalar_mode(const etd_call *call) {
    return divide_by_mode(call, true);
}

/* atan2(self, other, *, out) */
ETD_LINE_FN(atan2_floats, float, atan2f(a, b))
static const etd_operation angle = {.floats = atan2_floats};

static const char *atan2_tensor(const etd_call *call) {
    return etd_run_binary(call, &angle);
}

ETD_ATEN_KERNEL(atan2, "atan2", "out", 3, atan2_tensor)
ETD_ATEN_KERNEL(div_mode, "div", "out_mode", 4, div_mode)
ETD_ATEN_KERNEL(div_scalar_mode, "div", "Scalar_mode_out", 4, div_scalar_mode)
ETD_ATEN_KERNEL(floor_divide, "floor_divide", "out", 3, floor_divide)
ETD_ATEN_KERNEL(fmod, "fmod", "Tensor_out", 3, fmod_tensor)
ETD_ATEN_KERNEL(fmod_scalar, "fmod", "Scalar_out", 3, fmod_scalar)
ETD_ATEN_KERNEL(remainder, "remainder", "Tensor_out", 3, remainder_tensor)
ETD_ATEN_KERNEL(remainder_scalar, "remainder", "Scalar_out", 3, remainder_scalar)
