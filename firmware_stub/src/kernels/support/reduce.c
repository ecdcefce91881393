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

etd_extreme etd_find_extreme(etd_reduction *reduction, bool is_largest) {
    const etd_tensor *input = reduction->input;
    const etd_walk_run line = etd_innermost(&reduction->over);
    const bool is_float = input->dtype == ETD_FLOAT; /* the usual type */
    const uint32_t start = reduction->from.offset;
    float value = is_float ? etd_floats(input)[start] : 0.0f;
    double real = 0.0;
    int64_t integer = 0;
    etd_extreme extreme = {0, start};
    etd_numbers numbers;
    for (uint32_t index = 0; index < reduction->count;) {
        const uint32_t end = index + line.count;
        uint32_t place = start + reduction->over.offset;
        const float *at = etd_floats(input) + place;
        for (; is_float && index < end; index++) {
            const float next = *at;
            if ((is_largest ? !(next <= value) : !(next >= value)) && !isnan(value)) { /* beyond, or NaN */
                value = next;
                extreme = (etd_extreme){index, (uint32_t)(at - etd_floats(input))};
            }
            at += line.stride;
        }
        while (index < end) {
            etd_load_numbers(input, place, line.stride, end - index, &numbers);
            uint32_t found = index == 0 ? 0 : UINT32_MAX;
            if (numbers.is_real) {
                real = index == 0 ? numbers.as.reals[0] : real;
                for (uint32_t i = 0; i < numbers.count; i++) {
                    const double next = numbers.as.reals[i];
                    if ((is_largest ? !(next <= real) : !(next >= real)) && !isnan(real)) {
                        real = next;
                        found = i;
                    }
                }
            } else {
                integer = index == 0 ? numbers.as.integers[0] : integer;
                for (uint32_t i = 0; i < numbers.count; i++) {
                    const int64_t next = numbers.as.integers[i];
                    if (is_largest ? next > integer : next < integer) {
                        integer = next;
                        found = i;
                    }
                }
            }
            if (found != UINT32_MAX) {
                extreme = (etd_extreme){index + found, place + found * (uint32_t)line.stride};
            }
            index += numbers.count;
            place += numbers.count * (uint32_t)line.stride;
        }
        if (line.count != reduction->count) {
            etd_walk_next_line(&reduction->over);
        }
    }
    return extreme;
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
