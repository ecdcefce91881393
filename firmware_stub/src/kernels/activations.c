// SPDX-License-Identifier: Apache-2.0
/* Activations: ELU, and those that exports for Cortex-M do not decompose. */
#include <math.h>

#include "elementwise.h"
#include "kernels.h"

enum { ALPHA, SCALE, INPUT_SCALE, ELU_PARAMETERS };

static float elu_of(float x, const float *parameters) {
    return parameters[SCALE] * (x > 0.0f ? x : parameters[ALPHA] * expm1f(x * parameters[INPUT_SCALE]));
}

/* elu(self, alpha, scale, input_scale, *, out) */
static const char *elu(const etd_call *call) {
    float parameters[ELU_PARAMETERS];
    for (uint32_t i = 0; i < ELU_PARAMETERS; i++) {
        double number;
        if (!etd_arg_number(call, 1 + i, &number)) {
            return "invalid alpha, scale or input_scale";
        }
        parameters[i] = (float)number;
    }
    return etd_run_map(call, 4, elu_of, parameters);
}

static float hard_sigmoid_of(float x, const float *unused) {
    const float sixth = 1.0f / 6.0f;
    const float raised = x + 3.0f < 0.0f ? 0.0f : x + 3.0f; /* NaN is not less */
    (void)unused;
    return (raised > 6.0f ? 6.0f : raised) * sixth;
}

static float hard_swish_of(float x, const float *unused) {
    return x * hard_sigmoid_of(x, unused);
}

static float silu_of(float x, const float *unused) {
    (void)unused;
    return x / (1.0f + expf(-x));
}

/* (self, *, out) */
static const char *hard_sigmoid(const etd_call *call) {
    return etd_run_map(call, 1, hard_sigmoid_of, NULL);
}

static const char *hard_swish(const etd_call *call) {
    return etd_run_map(call, 1, hard_swish_of, NULL);
}

static const char *silu(const etd_call *call) {
    return etd_run_map(call, 1, silu_of, NULL);
}

ETD_ATEN_KERNEL(elu, "elu", "out", 5, elu)
ETD_ATEN_KERNEL(hardsigmoid, "hardsigmoid", "out", 2, hard_sigmoid)
ETD_ATEN_KERNEL(hardswish, "hardswish", "out", 2, hard_swish)
ETD_ATEN_KERNEL(silu, "silu", "out", 2, silu)
