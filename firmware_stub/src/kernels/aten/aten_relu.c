// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/elementwise.h"

/* relu(input, *, out) */
static const char *relu(const etd_call *call) {
    static const etd_number zero = {.integer = 0};
    return etd_run_clamp(call, 1, &zero, NULL);
}

const etd_kernel etd_aten_relu = {"aten::relu", "out", "native_call_relu.out", 2, relu};
