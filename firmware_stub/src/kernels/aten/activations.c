// SPDX-License-Identifier: Apache-2.0
/* Activations: ELU, gated units, logits, and those that exports for Cortex-M do not decompose. */
#include <math.h>

#include "../kernels.h"
#include "../support/elementwise.h"

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

static float logit_of(float x, const float *epsilon) {
    if (*epsilon >= 0.0f) {
        const float raised = x < *epsilon ? *epsilon : x; /* NaN is not less */
        x = raised > 1.0f - *epsilon ? 1.0f - *epsilon : raised;
    }
    return logf(x / (1.0f - x));
}

/* logit(self, eps?, *, out): the inverse of the sigmoid; eps keeps it finite */
static const char *logit(const etd_call *call) {
    double number = -1.0;
    if (!etd_arg_is_none(call, 1) && !etd_arg_number(call, 1, &number)) {
        return "invalid eps";
    }
    const float epsilon = (float)number;
    return etd_run_map(call, 2, logit_of, &epsilon);
}

/* glu(self, dim, *, out): the first half of a dimension times the sigmoid of the second half */
ETD_LINE_FN(gate_floats, float, a / (1.0f + expf(-b)))

static const char *glu(const etd_call *call) {
    static const etd_operation gate = {.floats = gate_floats};
    const etd_tensor *self = etd_arg_tensor(call, 0);
    uint8_t dim;
    if (!etd_is_type(self, ETD_FLOAT)) {
        return "supports only float32";
    }
    if (!etd_arg_dim(call, 1, self->ndim, &dim) || self->sizes[dim] % 2 != 0) {
        return "invalid dim";
    }
    etd_tensor first = *self;
    first.sizes[dim] /= 2;
    first.nbytes /= 2;
    etd_tensor second = first;
    second.data += (uint32_t)first.sizes[dim] * (uint32_t)self->strides[dim] * sizeof(float);
    return etd_run_operands(call, &gate, &first, &second, 2);
}

ETD_ATEN_KERNEL(glu, "glu", "out", ETD_IN_FLOAT32 + 3, glu)
ETD_ATEN_KERNEL(logit, "logit", "out", 3, logit)
ETD_ATEN_KERNEL(elu, "elu", "out", 5, elu)
ETD_ATEN_KERNEL(hardsigmoid, "hardsigmoid", "out", 2, hard_sigmoid)
ETD_ATEN_KERNEL(hardswish, "hardswish", "out", 2, hard_swish)
ETD_ATEN_KERNEL(silu, "silu", "out", 2, silu)
