// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/elementwise.h"

static float leak(float x, const float *slope) {
    return x > 0.0f ? x : x * *slope;
}

/* leaky_relu(input, negative_slope, *, out) */
static const char *leaky_relu(const etd_call *call) {
    double slope;
    if (!etd_arg_number(call, 1, &slope)) {
        return "invalid negative_slope";
    }
    const float parameter = (float)slope;
    return etd_run_map(call, 2, leak, &parameter);
}

const etd_kernel etd_aten_leaky_relu = {"aten::leaky_relu", "out", "native_call_leaky_relu.out", 3,
                                        leaky_relu};
