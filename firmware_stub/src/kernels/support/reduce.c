// SPDX-License-Identifier: Apache-2.0
#include "reduce.h"

#include <math.h>

#include "moments.h"
#include "number.h"

static void reduce_all(etd_reduction *reduction) {
    reduction->reduced = (1u << reduction->input->ndim) - 1u;
}

bool etd_arg_reduced(const etd_call *call, uint32_t i, etd_reduction *reduction) {
    const uint8_t ndim = reduction->input->ndim;
    uint8_t dims[ETD_MAX_DIMS];
    uint8_t count = 0;
    if (ndim == 0 && etd_arg_wrapped_dim(call, i, ndim, &dims[0])) {
        reduction->reduced = 0;
        return true;
    }
    if (etd_arg_dim(call, i, ndim, &dims[0])) {
        count = 1;
    } else if (!etd_arg_is_none(call, i) && !etd_arg_dims(call, i, ndim, dims, &count)) {
        return false;
    }
    reduction->reduced = 0;
    for (uint32_t d = 0; d < count; d++) {
        reduction->reduced |= 1u << dims[d];
    }
    if (count == 0) {
        reduce_all(reduction);
    }
    return true;
}

bool etd_plan_reduction(etd_reduction *reduction, etd_tensor *out) {
    const etd_tensor *input = reduction->input;
    int32_t sizes[ETD_MAX_DIMS];
    uint8_t dim = 0; /* of the output */
    reduction->count = 1;
    for (uint32_t d = 0; d < input->ndim; d++) {
        const bool is_reduced = (reduction->reduced & (1u << d)) != 0;
        etd_walk_add(is_reduced ? &reduction->over : &reduction->from, input->sizes[d], input->strides[d]);
        reduction->count *= is_reduced ? (uint32_t)input->sizes[d] : 1u;
        if (!is_reduced || reduction->keepdim) {
            sizes[dim++] = is_reduced ? 1 : input->sizes[d];
        }
    }
    return etd_resize(out, sizes, dim);
}

/* The number that is chosen so far, in the form that its type has. */
typedef struct {
    float value;
    double real;
    int64_t integer;
    etd_extreme extreme;
} etd_choice;

/* Compares a line of float32, the usual type. NaN is beyond all numbers. */
static ETD_INLINE void choose_float(etd_choice *choice, const float *floats, uint32_t place, uint32_t index,
                                    etd_walk_run line, bool is_largest) {
    const float *at = floats + place;
    for (const uint32_t end = index + line.count; index < end; index++) {
        const float next = *at;
        if ((is_largest ? !(next <= choice->value) : !(next >= choice->value)) && !isnan(choice->value)) {
            choice->value = next;
            choice->extreme = (etd_extreme){index, (uint32_t)(at - floats)};
        }
        at += line.stride;
    }
}

/* Return the number that is beyond all before it, or UINT32_MAX for none. */
static uint32_t choose_real(etd_choice *choice, const etd_numbers *numbers, bool is_largest) {
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < numbers->count; i++) {
        const double next = numbers->as.reals[i];
        if ((is_largest ? !(next <= choice->real) : !(next >= choice->real)) && !isnan(choice->real)) {
            choice->real = next;
            found = i;
        }
    }
    return found;
}

static uint32_t choose_integer(etd_choice *choice, const etd_numbers *numbers, bool is_largest) {
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < numbers->count; i++) {
        const int64_t next = numbers->as.integers[i];
        if (is_largest ? next > choice->integer : next < choice->integer) {
            choice->integer = next;
            found = i;
        }
    }
    return found;
}

/* Compares a line of any type. */
static void choose_number(etd_choice *choice, const etd_tensor *input, uint32_t place, uint32_t index,
                          etd_walk_run line, bool is_largest) {
    etd_numbers numbers;
    for (const uint32_t end = index + line.count; index < end;) {
        etd_load_numbers(input, place, line.stride, end - index, &numbers);
        if (index == 0 && numbers.is_real) {
            choice->real = numbers.as.reals[0];
        } else if (index == 0) {
            choice->integer = numbers.as.integers[0];
        }
        const uint32_t found = numbers.is_real ? choose_real(choice, &numbers, is_largest)
                                               : choose_integer(choice, &numbers, is_largest);
        if (found != UINT32_MAX) {
            choice->extreme = (etd_extreme){index + found, place + found * (uint32_t)line.stride};
        }
        index += numbers.count;
        place += numbers.count * (uint32_t)line.stride;
    }
}

etd_extreme etd_find_extreme(etd_reduction *reduction, bool is_largest) {
    const etd_tensor *input = reduction->input;
    const etd_walk_run line = etd_innermost(&reduction->over);
    const bool is_float = input->dtype == ETD_FLOAT;
    const uint32_t start = reduction->from.offset;
    etd_choice choice = {is_float ? etd_floats(input)[start] : 0.0f, 0.0, 0, {0, start}};
    for (uint32_t index = 0; index < reduction->count; index += line.count) {
        const uint32_t place = start + reduction->over.offset;
        if (is_float) {
            choose_float(&choice, etd_floats(input), place, index, line, is_largest);
        } else {
            choose_number(&choice, input, place, index, line, is_largest);
        }
        if (line.count != reduction->count) {
            etd_walk_next_line(&reduction->over);
        }
    }
    return choice.extreme;
}

static const char *sum(etd_reduction *reduction, etd_tensor *out, bool average) {
    etd_walk to = {0};
    if (!etd_plan_reduction(reduction, out)) {
        return "invalid output size";
    }
    etd_walk_add_dims(&to, out, out->ndim);
    for (uint32_t left = etd_numel(out); left > 0; left--) {
        const float *x = etd_floats(reduction->input) + reduction->from.offset;
        const float total = etd_sum_walk(x, &reduction->over, reduction->count);
        etd_out_floats(out)[to.offset] = average ? total / (float)reduction->count : total;
        etd_walk_next(&reduction->from);
        etd_walk_next(&to);
    }
    return NULL;
}

static const char *read_tensors(const etd_call *call, uint32_t dtype_at, etd_reduction *reduction,
                                etd_tensor **out) {
    int32_t dtype;
    reduction->input = etd_arg_tensor(call, 0);
    *out = etd_arg_out(call, dtype_at + 1);
    if (!etd_is_type(reduction->input, ETD_FLOAT) || !etd_is_type(*out, ETD_FLOAT) ||
        (!etd_arg_is_none(call, dtype_at) && !etd_arg_int(call, dtype_at, ETD_FLOAT, ETD_FLOAT, &dtype))) {
        return "supports only float32";
    }
    reduce_all(reduction);
    return NULL;
}

const char *etd_run_sum(const etd_call *call, bool average) {
    etd_reduction reduction = {0};
    etd_tensor *out;
    const char *refusal = read_tensors(call, 3, &reduction, &out);
    if (refusal != NULL) {
        return refusal;
    }
    if (!etd_arg_reduced(call, 1, &reduction) || !etd_arg_bool(call, 2, &reduction.keepdim)) {
        return "invalid dim or keepdim";
    }
    return sum(&reduction, out, average);
}

const char *etd_run_mean_of_all(const etd_call *call) {
    etd_reduction reduction = {0};
    etd_tensor *out;
    const char *refusal = read_tensors(call, 1, &reduction, &out);
    return refusal != NULL ? refusal : sum(&reduction, out, true);
}
