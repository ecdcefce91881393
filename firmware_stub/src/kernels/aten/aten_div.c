// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/elementwise.h"

/* div(self, other, *, out), true division */
ETD_LINE_FN(div_floats, float, a / b)
ETD_LINE_FN(div_doubles, double, a / b)

static const etd_operation operation = {.floats = div_floats, .doubles = div_doubles};

static const char *divide(const etd_call *call) {
    return etd_run_binary(call, &operation);
}

static const char *divide_scalar(const etd_call *call) {
    return etd_run_with_scalar(call, &operation);
}

const etd_kernel etd_aten_div = {"aten::div", "out", "native_call_div.out", 3, divide};
const etd_kernel etd_aten_div_scalar = {"aten::div", "Scalar_out", "native_call_div.Scalar_out", 3,
                                        divide_scalar};
