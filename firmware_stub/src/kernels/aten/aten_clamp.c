// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "../kernels.h"
#include "../support/elementwise.h"
#include "../support/number.h"
#include "../support/walk.h"

/* Reads an optional bound. */
static bool read_bound(const etd_call *call, uint32_t i, double absent, double *bound) {
    *bound = absent;
    return etd_arg_is_none(call, i) || etd_arg_number(call, i, bound);
}

/* Reads an optional bound of integers. */
static bool read_whole_bound(const etd_call *call, uint32_t i, int64_t absent, int64_t *bound) {
    *bound = absent;
    return etd_arg_is_none(call, i) || etd_arg_int64(call, i, bound);
}

/* Clamps integers of any type. Bounds must be integers: a float would promote the result. */
static const char *clamp_integers(const etd_call *call) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 3);
    int64_t low;
    int64_t high;
    if (!etd_is_numeric(input) || input->dtype == ETD_DOUBLE || input->dtype == ETD_BOOL ||
        !etd_is_type(out, input->dtype)) {
        return "supports only float32 and integers";
    }
    if (!read_whole_bound(call, 1, INT64_MIN, &low) || !read_whole_bound(call, 2, INT64_MAX, &high)) {
        return "invalid min or max";
    }
    if (!etd_take_layout(out, input)) {
        return "input and output differ in shape or layout";
    }
    const uint32_t numel = etd_numel(out);
    for (uint32_t i = 0; i < numel; i++) {
        etd_number number = etd_load_number(input, i);
        number.integer = number.integer < low ? low : number.integer;
        number.integer = number.integer > high ? high : number.integer;
        etd_store_number(out, i, number);
    }
    return NULL;
}

/* clamp(input, min?, max?, *, out), and hardtanh(input, min_val, max_val, *, out), whose bounds are
 * required */
static const char *clamp(const etd_call *call) {
    double low;
    double high;
    if (!etd_is_type(etd_arg_tensor(call, 0), ETD_FLOAT)) {
        return clamp_integers(call);
    }
    if (!read_bound(call, 1, -INFINITY, &low) || !read_bound(call, 2, INFINITY, &high) || isnan(low) ||
        isnan(high)) {
        return "invalid min or max";
    }
    return etd_run_clamp(call, 3, (float)low, (float)high);
}

/* Tensors of clamp with tensors as bounds; bounds may be absent. */
enum { SELF, LOW, HIGH, OUT, TENSORS };

static bool is_nan(etd_number x) {
    return x.is_real && isnan(x.real);
}

static bool is_less(etd_number a, etd_number b) {
    return a.is_real ? a.real < b.real : a.integer < b.integer;
}

/* Reads the tensors and resizes the output. Returns NULL, or a message if not supported. */
static const char *read_tensors(const etd_call *call, const etd_tensor *tensors[TENSORS]) {
    etd_tensor *out = etd_arg_out(call, OUT);
    etd_tensor shape = {0};
    if (!etd_is_numeric(out)) {
        return "invalid type of the output";
    }
    for (uint32_t t = SELF; t <= HIGH; t++) {
        tensors[t] = etd_arg_tensor(call, t);
        if (t != SELF && etd_arg_is_none(call, t)) {
            continue;
        }
        if (!etd_is_type(tensors[t], out->dtype)) {
            return "inputs and output differ in type";
        }
        if (!etd_broadcast_shape(&shape, tensors[t])) {
            return "inputs do not broadcast to each other";
        }
    }
    tensors[OUT] = out;
    return etd_resize_like(out, &shape) ? NULL : "invalid output size";
}

/* Returns the bound where the number exceeds it. NaN on either side gives NaN. */
static etd_number limit(etd_number number, etd_number bound, bool is_high) {
    const bool exceeds = is_high ? is_less(bound, number) : is_less(number, bound);
    return (exceeds || is_nan(bound)) && !is_nan(number) ? bound : number;
}

/* clamp(self, min?, max?, *, out) with tensors as bounds */
static const char *clamp_by_tensors(const etd_call *call) {
    const etd_tensor *tensors[TENSORS];
    etd_walk walks[TENSORS] = {0};
    const char *refusal = read_tensors(call, tensors);
    if (refusal != NULL) {
        return refusal;
    }
    const etd_tensor *out = tensors[OUT];
    for (uint32_t t = SELF; t < TENSORS; t++) {
        walks[t] = tensors[t] != NULL ? etd_walk_broadcast(tensors[t], out) : walks[t];
    }
    for (uint32_t left = etd_numel(out); left > 0; left--) {
        etd_number number = etd_load_number(tensors[SELF], walks[SELF].offset);
        for (uint32_t t = LOW; t <= HIGH; t++) {
            if (tensors[t] != NULL) {
                number = limit(number, etd_load_number(tensors[t], walks[t].offset), t == HIGH);
            }
        }
        etd_store_number(out, walks[OUT].offset, number);
        for (uint32_t t = SELF; t < TENSORS; t++) {
            etd_walk_next(&walks[t]);
        }
    }
    return NULL;
}

ETD_ATEN_KERNEL(clamp_by_tensors, "clamp", "Tensor_out", 4, clamp_by_tensors)

const etd_kernel etd_aten_clamp = {"aten::clamp", "out", "native_call_clamp.out", 4, clamp};
const etd_kernel etd_aten_hardtanh = {"aten::hardtanh", "out", "native_call_hardtanh.out", 4, clamp};
