// SPDX-License-Identifier: Apache-2.0
/* Arithmetic on scalars of the program, such as sizes known only at run time. ExecuTorch does not trace these
 * operators. */
#include <math.h>

#include "../kernels.h"
#include "../support/number.h"

/* Computes a result of any type. Returns NULL, or a message on failure. Unary operations ignore `b`. */
typedef const char *(*etd_scalar_fn)(etd_number a, etd_number b, etd_value *result);

static const char *give_int(etd_value *result, uint64_t number) {
    *result = (etd_value){.kind = ETD_VALUE_INT, .as.integer = (int64_t)number};
    return NULL;
}

static const char *give_real(etd_value *result, double number) {
    *result = (etd_value){.kind = ETD_VALUE_DOUBLE, .as.number = number};
    return NULL;
}

static const char *give_bool(etd_value *result, bool truth) {
    *result = (etd_value){.kind = ETD_VALUE_BOOL, .as.boolean = truth};
    return NULL;
}

static const char *give(etd_value *result, etd_number number) {
    return number.is_real ? give_real(result, number.real) : give_int(result, (uint64_t)number.integer);
}

static const char *give_rounded(etd_value *result, etd_number number, double (*round)(double)) {
    const double rounded = number.is_real ? round(number.real) : 0.0;
    if (!number.is_real) {
        return give(result, number);
    }
    /* 2^63; NaN is not less */
    return fabs(rounded) < 9223372036854775808.0 ? give_int(result, (uint64_t)(int64_t)rounded)
                                                 : "result does not fit an integer";
}

/* Integers wrap; they are computed as unsigned. */
#define ARITHMETIC(name, operator)                                                                           \
    static const char *name(etd_number a, etd_number b, etd_value *result) {                                 \
        if (a.is_real || b.is_real) {                                                                        \
            return give_real(result, etd_to_real(a) operator etd_to_real(b));                                \
        }                                                                                                    \
        return give_int(result, (uint64_t)a.integer operator(uint64_t) b.integer);                           \
    }

#define COMPARISON(name, operator)                                                                           \
    static const char *name(etd_number a, etd_number b, etd_value *result) {                                 \
        return give_bool(result, a.is_real || b.is_real ? etd_to_real(a) operator etd_to_real(b)             \
                                                        : a.integer operator b.integer);                     \
    }

ARITHMETIC(add, +)
ARITHMETIC(sub, -)
ARITHMETIC(mul, *)
COMPARISON(eq, ==)
COMPARISON(ge, >=)
COMPARISON(gt, >)
COMPARISON(le, <=)
COMPARISON(lt, <)

static const char *truediv(etd_number a, etd_number b, etd_value *result) {
    return etd_to_real(b) == 0.0 ? "division by zero" : give_real(result, etd_to_real(a) / etd_to_real(b));
}

/* Quotient and remainder as in Python: the remainder has the sign of the divisor. */
static const char *divide(etd_number a, etd_number b, int64_t *quotient, int64_t *remainder) {
    if (a.is_real || b.is_real) {
        return "supports only integers";
    }
    if (b.integer == 0) {
        return "division by zero";
    }
    if (b.integer == -1) { /* the quotient may not fit an int64 */
        *quotient = (int64_t)(0u - (uint64_t)a.integer);
        *remainder = 0;
        return NULL;
    }
    *quotient = a.integer / b.integer;
    *remainder = a.integer % b.integer;
    if (*remainder != 0 && (*remainder < 0) != (b.integer < 0)) {
        *quotient -= 1;
        *remainder += b.integer;
    }
    return NULL;
}

static const char *floordiv(etd_number a, etd_number b, etd_value *result) {
    int64_t quotient = 0;
    int64_t remainder;
    const char *refusal = divide(a, b, &quotient, &remainder);
    return refusal != NULL ? refusal : give_int(result, (uint64_t)quotient);
}

static const char *mod(etd_number a, etd_number b, etd_value *result) {
    int64_t quotient;
    int64_t remainder = 0;
    const char *refusal = divide(a, b, &quotient, &remainder);
    return refusal != NULL ? refusal : give_int(result, (uint64_t)remainder);
}

static const char *sym_max(etd_number a, etd_number b, etd_value *result) {
    (void)lt(a, b, result);
    return give(result, result->as.boolean ? b : a);
}

static const char *sym_min(etd_number a, etd_number b, etd_value *result) {
    (void)lt(b, a, result);
    return give(result, result->as.boolean ? b : a);
}

static const char *neg(etd_number a, etd_number b, etd_value *result) {
    (void)b;
    return a.is_real ? give_real(result, -a.real) : give_int(result, 0u - (uint64_t)a.integer);
}

static const char *sym_float(etd_number a, etd_number b, etd_value *result) {
    (void)b;
    return give_real(result, etd_to_real(a));
}

static const char *sym_not(etd_number a, etd_number b, etd_value *result) {
    (void)b;
    return give_bool(result, etd_to_real(a) == 0.0);
}

static const char *ceil_up(etd_number a, etd_number b, etd_value *result) {
    (void)b;
    return give_rounded(result, a, ceil);
}

/* Rounds ties to even. */
static const char *round_half_even(etd_number a, etd_number b, etd_value *result) {
    (void)b;
    return give_rounded(result, a, rint);
}

static const char *truncate(etd_number a, etd_number b, etd_value *result) {
    (void)b;
    return give_rounded(result, a, trunc);
}

/* (a, out) or (a, b, out) */
static const char *run(const etd_call *call, uint32_t inputs, etd_scalar_fn compute) {
    etd_number a;
    etd_number b;
    etd_value *result = etd_arg_result(call, inputs);
    if (!etd_arg_scalar(call, 0, &a) || !etd_arg_scalar(call, inputs - 1, &b) || result == NULL) {
        return "supports only numbers";
    }
    return compute(a, b, result);
}

/* sym_ite(condition, a, b, out): a if the condition holds, else b */
static const char *sym_ite(const etd_call *call) {
    etd_number condition;
    etd_number a;
    etd_number b;
    etd_value *result = etd_arg_result(call, 3);
    if (!etd_arg_scalar(call, 0, &condition) || !etd_arg_scalar(call, 1, &a) ||
        !etd_arg_scalar(call, 2, &b) || result == NULL) {
        return "supports only numbers";
    }
    return give(result, etd_holds(condition) ? a : b);
}

const etd_kernel etd_prim_sym_ite = {"executorch_prim::sym_ite", "Scalar", NULL, 4, sym_ite};

#define PRIM(kernel, name, inputs, compute) PRIM_OF(kernel, name, "Scalar", inputs, compute)

#define PRIM_OF(kernel, name, overload, inputs, compute)                                                     \
    static const char *run_##kernel(const etd_call *call) {                                                  \
        return run(call, inputs, compute);                                                                   \
    }                                                                                                        \
    const etd_kernel kernel = {"executorch_prim::" name, overload, NULL, (inputs) + 1, run_##kernel};

PRIM(etd_prim_add, "add", 2, add)
PRIM(etd_prim_ceil, "ceil", 1, ceil_up)
PRIM(etd_prim_eq, "eq", 2, eq)
PRIM(etd_prim_floordiv, "floordiv", 2, floordiv)
PRIM_OF(etd_prim_floordiv_int, "floordiv", "int", 2, floordiv)
PRIM(etd_prim_ge, "ge", 2, ge)
PRIM(etd_prim_gt, "gt", 2, gt)
PRIM(etd_prim_le, "le", 2, le)
PRIM(etd_prim_lt, "lt", 2, lt)
PRIM(etd_prim_mod, "mod", 2, mod)
PRIM_OF(etd_prim_mod_int, "mod", "int", 2, mod)
PRIM(etd_prim_mul, "mul", 2, mul)
PRIM(etd_prim_neg, "neg", 1, neg)
PRIM(etd_prim_round, "round", 1, round_half_even)
PRIM(etd_prim_sub, "sub", 2, sub)
PRIM(etd_prim_sym_float, "sym_float", 1, sym_float)
PRIM(etd_prim_sym_int, "sym_int", 1, truncate)
PRIM(etd_prim_sym_max, "sym_max", 2, sym_max)
PRIM(etd_prim_sym_min, "sym_min", 2, sym_min)
PRIM(etd_prim_sym_not, "sym_not", 1, sym_not)
PRIM(etd_prim_truediv, "truediv", 2, truediv)
PRIM(etd_prim_trunc, "trunc", 1, truncate)
