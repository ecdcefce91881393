// SPDX-License-Identifier: Apache-2.0
/* Variances over dimensions of a float32 tensor. */
#include "../kernels.h"
#include "../support/moments.h"
#include "../support/reduce.h"

/* Computes variances, and means unless `means` is NULL. The sum of squares is divided by the number of
 * elements minus `correction`. */
static const char *run(const etd_call *call, uint32_t keepdim_at, double correction, etd_tensor *out,
                       etd_tensor *means) {
    etd_reduction reduction = {.input = etd_arg_tensor(call, 0)};
    etd_walk to = {0};
    etd_walk to_mean = {0};
    if (!etd_is_type(reduction.input, ETD_FLOAT) || !etd_is_type(out, ETD_FLOAT)) {
        return "supports only float32";
    }
    if (!etd_arg_reduced(call, 1, &reduction) || !etd_arg_bool(call, keepdim_at, &reduction.keepdim)) {
        return "invalid dim or keepdim";
    }
    if (!etd_plan_reduction(&reduction, out) ||
        (means != NULL && !etd_resize(means, out->sizes, out->ndim))) {
        return "invalid output size";
    }
    const double left = (double)reduction.count - correction;
    etd_walk_add_dims(&to, out, out->ndim);
    if (means != NULL) {
        etd_walk_add_dims(&to_mean, means, means->ndim);
    }
    for (uint32_t i = etd_numel(out); i > 0; i--) {
        const float *x = etd_floats(reduction.input) + reduction.from.offset;
        const etd_moments moments = etd_measure(x, &reduction.over, reduction.count);
        /* too few elements give infinity or NaN, as in PyTorch */
        etd_out_floats(out)[to.offset] = moments.squares / (left > 0.0 ? (float)left : 0.0f);
        if (means != NULL) {
            etd_out_floats(means)[to_mean.offset] = moments.mean;
        }
        etd_walk_next(&reduction.from);
        etd_walk_next(&to);
        etd_walk_next(&to_mean);
    }
    return NULL;
}

/* Reads the correction (argument 2); the default is 1. */
static bool read_correction(const etd_call *call, double *correction) {
    *correction = 1.0;
    return etd_arg_is_none(call, 2) || etd_arg_number(call, 2, correction);
}

/* var(input, dim?, *, correction?, keepdim, out) */
static const char *var_correction(const etd_call *call) {
    double correction;
    return read_correction(call, &correction) ? run(call, 3, correction, etd_arg_out(call, 4), NULL)
                                              : "invalid correction";
}

/* var(input, dim?, unbiased, keepdim, *, out) */
static const char *var(const etd_call *call) {
    bool unbiased;
    return etd_arg_bool(call, 2, &unbiased) ? run(call, 3, unbiased ? 1.0 : 0.0, etd_arg_out(call, 4), NULL)
                                            : "invalid unbiased";
}

/* var_mean(input, dim?, *, correction?, keepdim, out0, out1) */
static const char *var_mean(const etd_call *call) {
    double correction;
    etd_tensor *means = etd_arg_out(call, 5);
    if (!read_correction(call, &correction)) {
        return "invalid correction";
    }
    return etd_is_type(means, ETD_FLOAT) ? run(call, 3, correction, etd_arg_out(call, 4), means)
                                         : "invalid output for the mean";
}

ETD_ATEN_KERNEL(var, "var", "out", ETD_IN_FLOAT32 + 5, var)
ETD_ATEN_KERNEL(var_correction, "var", "correction_out", ETD_IN_FLOAT32 + 5, var_correction)
ETD_ATEN_KERNEL(var_mean, "var_mean", "correction_out", ETD_IN_FLOAT32 + 6, var_mean)
