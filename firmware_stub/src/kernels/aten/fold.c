// SPDX-License-Identifier: Apache-2.0
/* Reductions of any type: elements are folded into a number, one after the other. */
#include <math.h>

#include "../kernels.h"
#include "../support/number.h"
#include "../support/reduce.h"

/* Folds some elements into a number. */
typedef void (*etd_fold_fn)(etd_number *so_far, const etd_numbers *numbers);

/* Defines an etd_fold_fn: each statement adds element x to `real` or to `integer`. */
#define FOLD(name, with_real, with_integer)                                                                  \
    static void name(etd_number *so_far, const etd_numbers *numbers) {                                       \
        double real = so_far->real;                                                                          \
        int64_t integer = so_far->integer;                                                                   \
        for (uint32_t i = 0; i < numbers->count; i++) {                                                      \
            if (numbers->is_real) {                                                                          \
                const double x = numbers->as.reals[i];                                                       \
                with_real;                                                                                   \
            } else {                                                                                         \
                const int64_t x = numbers->as.integers[i];                                                   \
                with_integer;                                                                                \
            }                                                                                                \
        }                                                                                                    \
        so_far->real = real;                                                                                 \
        so_far->integer = integer;                                                                           \
    }

/* Integers wrap, as in PyTorch. */
FOLD(add, real += x, integer = (int64_t)((uint64_t)integer + (uint64_t)x))
FOLD(multiply, real *= x, integer = (int64_t)((uint64_t)integer * (uint64_t)x))
FOLD(either, integer |= x != 0.0, integer |= x != 0)
FOLD(both, integer &= x != 0.0, integer &= x != 0)
/* NaN is both the largest and the smallest number. */
FOLD(larger, real = x > real || isnan(x) ? x : real, integer = x > integer ? x : integer)
FOLD(smaller, real = x < real || isnan(x) ? x : real, integer = x < integer ? x : integer)

/* Returns a start value in the input's kind of number. */
static etd_number neutral(const etd_tensor *input, int32_t number) {
    return (etd_number){etd_is_real(input->dtype), number, number};
}

/* Folds the elements of one reduction. */
static void fold_one(etd_reduction *reduction, etd_fold_fn function, etd_number *number) {
    const etd_walk_run line = etd_innermost(&reduction->over);
    etd_numbers numbers;
    for (uint32_t left = reduction->count; left > 0; left -= line.count) {
        uint32_t place = reduction->from.offset + reduction->over.offset;
        for (uint32_t rest = line.count; rest > 0; rest -= numbers.count) {
            etd_load_numbers(reduction->input, place, line.stride, rest, &numbers);
            function(number, &numbers);
            place += numbers.count * (uint32_t)line.stride;
        }
        etd_walk_next_line(&reduction->over);
    }
}

/* Plans a reduction. Only those that start with a number may have no elements. */
static const char *plan(etd_reduction *reduction, etd_tensor *out, bool needs_elements) {
    if (!etd_plan_reduction(reduction, out)) {
        return "invalid output size";
    }
    return needs_elements && reduction->count == 0 && out->nbytes != 0 ? "empty input" : NULL;
}

/* Folds the elements of each reduction, beginning with `start`, or with the first element if NULL. */
static const char *fold(etd_reduction *reduction, etd_tensor *out, etd_fold_fn function,
                        const etd_number *start) {
    const etd_tensor *input = reduction->input;
    etd_walk to = {0};
    const char *refusal = plan(reduction, out, start == NULL);
    etd_walk_add_dims(&to, out, out->ndim);
    for (uint32_t left = refusal == NULL ? etd_numel(out) : 0; left > 0; left--) {
        etd_number number = start != NULL ? *start : etd_load_number(input, reduction->from.offset);
        fold_one(reduction, function, &number);
        etd_store_number(out, to.offset, number);
        etd_walk_next(&reduction->from);
        etd_walk_next(&to);
    }
    return refusal;
}

/* As fold, for the usual type. */
static const char *fold_extremes(etd_reduction *reduction, etd_tensor *out, bool is_largest) {
    etd_walk to = {0};
    const char *refusal = plan(reduction, out, true);
    etd_walk_add_dims(&to, out, out->ndim);
    for (uint32_t left = refusal == NULL ? etd_numel(out) : 0; left > 0; left--) {
        const uint32_t place = etd_find_extreme(reduction, is_largest).place;
        etd_out_floats(out)[to.offset] = etd_floats(reduction->input)[place];
        etd_walk_next(&reduction->from);
        etd_walk_next(&to);
    }
    return refusal;
}

/* Argument positions of an overload; 0 for arguments that it lacks. */
typedef struct {
    uint32_t dims;
    uint32_t keepdim;
    uint32_t dtype;
    uint32_t out;
} etd_places;

static const char *read_arguments(const etd_call *call, const etd_places *places, etd_reduction *reduction,
                                  etd_tensor **out) {
    int32_t dtype;
    reduction->input = etd_arg_tensor(call, 0);
    *out = etd_arg_out(call, places->out);
    if (!etd_is_numeric(reduction->input) || !etd_is_numeric(*out)) {
        return "invalid type of input or output";
    }
    reduction->reduced = (1u << reduction->input->ndim) - 1u;
    if ((places->dims != 0 && !etd_arg_reduced(call, places->dims, reduction)) ||
        (places->keepdim != 0 && !etd_arg_bool(call, places->keepdim, &reduction->keepdim))) {
        return "invalid dim or keepdim";
    }
    if (places->dtype != 0 && !etd_arg_is_none(call, places->dtype) &&
        !etd_arg_int(call, places->dtype, (*out)->dtype, (*out)->dtype, &dtype)) {
        return "invalid dtype";
    }
    return NULL;
}

/* Computes the largest or smallest element, in the input's type. */
static const char *run_extreme(const etd_call *call, const etd_places *places, etd_fold_fn function) {
    etd_reduction reduction = {0};
    etd_tensor *out;
    const char *refusal = read_arguments(call, places, &reduction, &out);
    if (refusal != NULL) {
        return refusal;
    }
    if (out->dtype != reduction.input->dtype) {
        return "input and output differ in type";
    }
    return out->dtype == ETD_FLOAT ? fold_extremes(&reduction, out, function == larger)
                                   : fold(&reduction, out, function, NULL);
}

/* Computes a boolean; for uint8 the output may be uint8. */
static const char *run_truth(const etd_call *call, const etd_places *places, etd_fold_fn function,
                             int32_t start) {
    etd_reduction reduction = {0};
    const etd_number first = {.integer = start};
    etd_tensor *out;
    const char *refusal = read_arguments(call, places, &reduction, &out);
    if (refusal != NULL) {
        return refusal;
    }
    if (out->dtype != ETD_BOOL && (out->dtype != ETD_BYTE || reduction.input->dtype != ETD_BYTE)) {
        return "supports only bool as the output";
    }
    return fold(&reduction, out, function, &first);
}

/* Computes floats or, from integers, integers. */
static const char *run_arithmetic(const etd_call *call, const etd_places *places, etd_fold_fn function,
                                  int32_t start) {
    etd_reduction reduction = {0};
    etd_tensor *out;
    const char *refusal = read_arguments(call, places, &reduction, &out);
    if (refusal != NULL) {
        return refusal;
    }
    const etd_number first = neutral(reduction.input, start);
    if (!etd_can_cast(reduction.input->dtype, out->dtype)) {
        return "the output cannot hold the type of the input";
    }
    return fold(&reduction, out, function, &first);
}

static const etd_places of_dims = {.dims = 1, .keepdim = 2, .out = 3};
static const etd_places of_all = {.out = 1};

/* (input, dim, keepdim, *, out), where dim may be a list, and an empty one means all */
static const char *amax(const etd_call *call) {
    return run_extreme(call, &of_dims, larger);
}

static const char *amin(const etd_call *call) {
    return run_extreme(call, &of_dims, smaller);
}

static const char *any_of_dims(const etd_call *call) {
    return run_truth(call, &of_dims, either, 0);
}

static const char *all_of_dims(const etd_call *call) {
    return run_truth(call, &of_dims, both, 1);
}

/* (input, *, out) */
static const char *max_of_all(const etd_call *call) {
    return run_extreme(call, &of_all, larger);
}

static const char *min_of_all(const etd_call *call) {
    return run_extreme(call, &of_all, smaller);
}

static const char *any(const etd_call *call) {
    return run_truth(call, &of_all, either, 0);
}

static const char *all(const etd_call *call) {
    return run_truth(call, &of_all, both, 1);
}

/* prod.int_out(input, dim, keepdim, dtype?, *, out) */
static const char *prod_of_dim(const etd_call *call) {
    static const etd_places places = {.dims = 1, .keepdim = 2, .dtype = 3, .out = 4};
    return run_arithmetic(call, &places, multiply, 1);
}

/* prod.out(input, dtype?, *, out) */
static const char *prod(const etd_call *call) {
    static const etd_places places = {.dtype = 1, .out = 2};
    return run_arithmetic(call, &places, multiply, 1);
}

/* sum.IntList_out(input, dim?, keepdim, dtype?, *, out); float32 has a faster loop */
static const char *sum(const etd_call *call) {
    static const etd_places places = {.dims = 1, .keepdim = 2, .dtype = 3, .out = 4};
    const bool is_float =
        etd_is_type(etd_arg_tensor(call, 0), ETD_FLOAT) && etd_is_type(etd_arg_tensor(call, 4), ETD_FLOAT);
    return is_float ? etd_run_sum(call, false) : run_arithmetic(call, &places, add, 0);
}

/* Stores the sums of each element of a line and those before it. */
static void add_up_line(const etd_tensor *input, uint32_t from, const etd_tensor *out, uint32_t to,
                        uint8_t dim, uint32_t length) {
    const int32_t from_step = input->strides[dim];
    const int32_t to_step = out->strides[dim];
    etd_numbers numbers;
    double real = 0.0;
    uint64_t integer = 0; /* wraps, as in PyTorch */
    for (uint32_t left = length; left > 0; left -= numbers.count) {
        etd_load_numbers(input, from, from_step, left, &numbers);
        for (uint32_t i = 0; i < numbers.count; i++) {
            if (numbers.is_real) {
                real += numbers.as.reals[i];
                numbers.as.reals[i] = real;
            } else {
                integer += (uint64_t)numbers.as.integers[i];
                numbers.as.integers[i] = (int64_t)integer;
            }
        }
        etd_store_numbers(out, to, to_step, &numbers);
        from += numbers.count * (uint32_t)from_step;
        to += numbers.count * (uint32_t)to_step;
    }
}

/* cumsum(input, dim, dtype?, *, out): the sum of each element and those before it */
static const char *cumsum(const etd_call *call) {
    static const etd_places places = {.dims = 1, .dtype = 2, .out = 3};
    etd_reduction reduction = {0};
    etd_tensor *out;
    const char *refusal = read_arguments(call, &places, &reduction, &out);
    uint8_t dim = 0;
    if (refusal != NULL) {
        return refusal;
    }
    const etd_tensor *input = reduction.input;
    if (!etd_can_cast(input->dtype, out->dtype)) {
        return "the output cannot hold the type of the input";
    }
    if (!etd_arg_wrapped_dim(call, 1, input->ndim, &dim)) {
        return "invalid dim";
    }
    if (!etd_resize_like(out, input)) {
        return "invalid output size";
    }
    etd_walk from = {0};
    etd_walk to = {0};
    for (uint32_t d = 0; d < input->ndim; d++) {
        etd_walk_add(&from, d == dim ? 1 : input->sizes[d], input->strides[d]);
        etd_walk_add(&to, d == dim ? 1 : out->sizes[d], out->strides[d]);
    }
    const uint32_t length = input->ndim > 0 ? (uint32_t)input->sizes[dim] : 1;
    const uint32_t lines = length > 0 ? etd_numel(input) / length : 0;
    for (uint32_t line = 0; line < lines; line++) {
        add_up_line(input, from.offset, out, to.offset, dim, length);
        etd_walk_next(&from);
        etd_walk_next(&to);
    }
    return NULL;
}

ETD_ATEN_KERNEL(all, "all", "all_out", 2, all)
ETD_ATEN_KERNEL(all_of_dim, "all", "out", 4, all_of_dims)
ETD_ATEN_KERNEL(all_of_dims, "all", "dims_out", 4, all_of_dims)
ETD_ATEN_KERNEL(amax, "amax", "out", 4, amax)
ETD_ATEN_KERNEL(amin, "amin", "out", 4, amin)
ETD_ATEN_KERNEL(any, "any", "all_out", 2, any)
ETD_ATEN_KERNEL(any_of_dim, "any", "out", 4, any_of_dims)
ETD_ATEN_KERNEL(any_of_dims, "any", "dims_out", 4, any_of_dims)
ETD_ATEN_KERNEL(cumsum, "cumsum", "out", 4, cumsum)
ETD_ATEN_KERNEL(max_of_all, "max", "unary_out", 2, max_of_all)
ETD_ATEN_KERNEL(min_of_all, "min", "unary_out", 2, min_of_all)
ETD_ATEN_KERNEL(prod, "prod", "out", 3, prod)
ETD_ATEN_KERNEL(prod_of_dim, "prod", "int_out", 5, prod_of_dim)
ETD_ATEN_KERNEL(sum, "sum", "IntList_out", 5, sum)
