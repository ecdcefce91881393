/* Arithmetic on a program's scalars, such as sizes that are known only when it runs. ExecuTorch traces no
 * event for these. */
#include <math.h>

#include "kernels.h"
#include "number.h"

/* Computes a result of whichever kind, or returns why it cannot. A unary operation looks at a only. */
typedef const char *(*et_scalar_fn)(et_number a, et_number b, et_value *result);

static const char *give_int(et_value *result, uint64_t number) {
    *result = (et_value){.kind = ET_VALUE_INT, .as.integer = (int64_t)number};
    return NULL;
}

static const char *give_real(et_value *result, double number) {
    *result = (et_value){.kind = ET_VALUE_DOUBLE, .as.number = number};
    return NULL;
}

static const char *give_bool(et_value *result, bool truth) {
    *result = (et_value){.kind = ET_VALUE_BOOL, .as.boolean = truth};
    return NULL;
}

static const char *give(et_value *result, et_number number) {
    return number.is_real ? give_real(result, number.real) : give_int(result, (uint64_t)number.integer);
}

static const char *give_rounded(et_value *result, et_number number, double (*round)(double)) {
    const double rounded = number.is_real ? round(number.real) : 0.0;
    if (!number.is_real) {
        return give(result, number);
    }
    /* 2^63; NaN is not less */
    return fabs(rounded) < 9223372036854775808.0 ? give_int(result, (uint64_t)(int64_t)rounded)
                                                 : "no such integer";
}

/* Integers wrap, computed as unsigned ones. */
#define ARITHMETIC(name, operator)                                                                           \
    static const char *name(et_number a, et_number b, et_value *result) {                                    \
        if (a.is_real || b.is_real) {                                                                        \
            return give_real(result, et_to_real(a) operator et_to_real(b));                                  \
        }                                                                                                    \
        return give_int(result, (uint64_t)a.integer operator(uint64_t) b.integer);                           \
    }

#define COMPARISON(name, operator)                                                                           \
    static const char *name(et_number a, et_number b, et_value *result) {                                    \
        return give_bool(result, a.is_real || b.is_real ? et_to_real(a) operator et_to_real(b)               \
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

static const char *truediv(et_number a, et_number b, et_value *result) {
    return et_to_real(b) == 0.0 ? "division by zero" : give_real(result, et_to_real(a) / et_to_real(b));
}

/* Quotient and remainder as Python has them: the remainder has the divisor's sign. */
static const char *divide(et_number a, et_number b, int64_t *quotient, int64_t *remainder) {
    if (a.is_real || b.is_real) {
        return "only integers";
    }
    if (b.integer == 0) {
        return "division by zero";
    }
    if (b.integer == -1) { /* the quotient may not be an int64 */
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

static const char *floordiv(et_number a, et_number b, et_value *result) {
    int64_t quotient = 0;
    int64_t remainder;
    const char *refusal = divide(a, b, &quotient, &remainder);
    return refusal != NULL ? refusal : give_int(result, (uint64_t)quotient);
}

static const char *mod(et_number a, et_number b, et_value *result) {
    int64_t quotient;
    int64_t remainder = 0;
    const char *refusal = divide(a, b, &quotient, &remainder);
    return refusal != NULL ? refusal : give_int(result, (uint64_t)remainder);
}

static const char *sym_max(et_number a, et_number b, et_value *result) {
    (void)lt(a, b, result);
    return give(result, result->as.boolean ? b : a);
}

static const char *sym_min(et_number a, et_number b, et_value *result) {
    (void)lt(b, a, result);
    return give(result, result->as.boolean ? b : a);
}

static const char *neg(et_number a, et_number b, et_value *result) {
    (void)b;
    return a.is_real ? give_real(result, -a.real) : give_int(result, 0u - (uint64_t)a.integer);
}

static const char *sym_float(et_number a, et_number b, et_value *result) {
    (void)b;
    return give_real(result, et_to_real(a));
}

static const char *sym_not(et_number a, et_number b, et_value *result) {
    (void)b;
    return give_bool(result, et_to_real(a) == 0.0);
}

static const char *ceil_up(et_number a, et_number b, et_value *result) {
    (void)b;
    return give_rounded(result, a, ceil);
}

/* Ties to even. */
static const char *round_near(et_number a, et_number b, et_value *result) {
    (void)b;
    return give_rounded(result, a, rint);
}

static const char *truncate(et_number a, et_number b, et_value *result) {
    (void)b;
    return give_rounded(result, a, trunc);
}

/* (a, out) or (a, b, out) */
static const char *run(const et_call *call, uint32_t inputs, et_scalar_fn compute) {
    et_number a;
    et_number b;
    et_value *result = et_arg_result(call, inputs);
    if (!et_arg_scalar(call, 0, &a) || !et_arg_scalar(call, inputs - 1, &b) || result == NULL) {
        return "only numbers";
    }
    return compute(a, b, result);
}

#define PRIM(kernel, name, inputs, compute)                                                                  \
    static const char *run_##kernel(const et_call *call) {                                                   \
        return run(call, inputs, compute);                                                                   \
    }                                                                                                        \
    const et_kernel kernel = {"executorch_prim::" name, "Scalar", NULL, (inputs) + 1, run_##kernel};

PRIM(et_prim_add, "add", 2, add)
PRIM(et_prim_ceil, "ceil", 1, ceil_up)
PRIM(et_prim_eq, "eq", 2, eq)
PRIM(et_prim_floordiv, "floordiv", 2, floordiv)
PRIM(et_prim_ge, "ge", 2, ge)
PRIM(et_prim_gt, "gt", 2, gt)
PRIM(et_prim_le, "le", 2, le)
PRIM(et_prim_lt, "lt", 2, lt)
PRIM(et_prim_mod, "mod", 2, mod)
PRIM(et_prim_mul, "mul", 2, mul)
PRIM(et_prim_neg, "neg", 1, neg)
PRIM(et_prim_round, "round", 1, round_near)
PRIM(et_prim_sub, "sub", 2, sub)
PRIM(et_prim_sym_float, "sym_float", 1, sym_float)
PRIM(et_prim_sym_int, "sym_int", 1, truncate)
PRIM(et_prim_sym_max, "sym_max", 2, sym_max)
PRIM(et_prim_sym_min, "sym_min", 2, sym_min)
PRIM(et_prim_sym_not, "sym_not", 1, sym_not)
PRIM(et_prim_truediv, "truediv", 2, truediv)
PRIM(et_prim_trunc, "trunc", 1, truncate)
