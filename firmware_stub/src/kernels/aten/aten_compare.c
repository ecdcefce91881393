// SPDX-License-Identifier: Apache-2.0
/* Comparisons of two tensors, or of a tensor and a number: (self, other, *, out). The output is bool. */
#include "../kernels.h"
#include "../support/elementwise.h"
#include "../support/number.h"
#include "../support/walk.h"

typedef bool (*etd_compare_fn)(double a, double b);

/* Returns true if elements of this type can be compared with the number without promotion. */
static bool has_loop(uint8_t dtype, etd_number number) {
    if (dtype == ETD_FLOAT) {
        return true;
    }
    const bool is_truth = number.integer == 0 || number.integer == 1;
    return !number.is_real && (dtype == ETD_INT || dtype == ETD_LONG || (dtype == ETD_BOOL && is_truth));
}

static bool needs_promotion(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    etd_number number;
    return etd_is_numeric(self) && etd_arg_scalar(call, 1, &number) && !has_loop(self->dtype, number);
}

/* Compares any type with a number, as doubles: those hold integers up to 2^53 exactly. */
static const char *compare_promoted(const etd_call *call, etd_compare_fn holds) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 2);
    etd_number number;
    if (!etd_arg_scalar(call, 1, &number) || !etd_is_type(out, ETD_BOOL)) {
        return "inputs and output differ in type";
    }
    if (!etd_resize_like(out, self)) {
        return "invalid output size";
    }
    const double bound = etd_to_real(number);
    etd_walk from = etd_walk_broadcast(self, out);
    etd_walk to = etd_walk_broadcast(out, out);
    for (uint32_t left = etd_numel(out); left > 0; left--) {
        out->data[to.offset] = holds(etd_to_real(etd_load_number(self, from.offset)), bound);
        etd_walk_next(&from);
        etd_walk_next(&to);
    }
    return NULL;
}

#define COMPARISON(name, sign)                                                                               \
    ETD_LINE_FN_TO(name##_floats, float, uint8_t, a sign b)                                                  \
    ETD_LINE_FN_TO(name##_int32s, int32_t, uint8_t, a sign b)                                                \
    ETD_LINE_FN_TO(name##_int64s, int64_t, uint8_t, a sign b)                                                \
    ETD_LINE_FN_TO(name##_bools, uint8_t, uint8_t, a sign b)                                                 \
    static const etd_operation name = {ETD_NUMBER_FNS(name), .bools = name##_bools, .gives_truth = true};    \
    static const char *name##_tensor(const etd_call *call) {                                                 \
        return etd_run_binary(call, &(name));                                                                \
    }                                                                                                        \
    static bool name##_holds(double a, double b) {                                                           \
        return a sign b;                                                                                     \
    }                                                                                                        \
    static const char *name##_scalar(const etd_call *call) {                                                 \
        return needs_promotion(call) ? compare_promoted(call, name##_holds)                                  \
                                     : etd_run_with_scalar(call, &(name));                                   \
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
