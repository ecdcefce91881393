// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "../kernels.h"
#include "../support/elementwise.h"

/* x times the cumulative distribution function of the normal distribution */
static float gelu_erf(float x, const float *unused) {
    const float sqrt_half = 0.70710678f;
    (void)unused;
    return x * 0.5f * (1.0f + erff(x * sqrt_half));
}

static float gelu_tanh(float x, const float *unused) {
    const float sqrt_2_over_pi = 0.79788456f;
    const float cubic = 0.044715f;
    (void)unused;
    return 0.5f * x * (1.0f + tanhf(sqrt_2_over_pi * (x + cubic * x * x * x)));
}

/* gelu(input, *, approximate, out) */
static const char *gelu(const etd_call *call) {
    if (etd_arg_is_text(call, 1, "none")) {
        return etd_run_map(call, 2, gelu_erf, NULL);
    }
    if (etd_arg_is_text(call, 1, "tanh")) {
        return etd_run_map(call, 2, gelu_tanh, NULL);
    }
    return "invalid approximate";
}

const etd_kernel etd_aten_gelu = {"aten::gelu", "out", "native_call_gelu.out", 3, gelu};
