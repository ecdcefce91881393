// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "../kernels.h"
#include "../support/elementwise.h"

static float hyperbolic_tangent(float x, const float *unused) {
    (void)unused;
    return tanhf(x);
}

/* tanh(input, *, out) */
static const char *tangent(const etd_call *call) {
    return etd_run_map(call, 1, hyperbolic_tangent, NULL);
}

const etd_kernel etd_aten_tanh = {"aten::tanh", "out", "native_call_tanh.out", 2, tangent};
