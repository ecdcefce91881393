// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "../kernels.h"
#include "../support/elementwise.h"

static float logistic(float x, const float *unused) {
    (void)unused;
    return 1.0f / (1.0f + expf(-x));
}

/* sigmoid(input, *, out) */
static const char *sigmoid(const etd_call *call) {
    return etd_run_map(call, 1, logistic, NULL);
}

const etd_kernel etd_aten_sigmoid = {"aten::sigmoid", "out", "native_call_sigmoid.out", 2, sigmoid};
