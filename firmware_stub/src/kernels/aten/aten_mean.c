// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/reduce.h"

/* mean.out(input, dim?, keepdim, dtype?, *, out) */
static const char *mean(const etd_call *call) {
    return etd_run_sum(call, true);
}

/* mean.dtype_out(input, dtype?, *, out): ExecuTorch's overload without dimensions */
const etd_kernel etd_aten_mean = {"aten::mean", "out", "native_call_mean.out", ETD_IN_FLOAT32 + 5, mean};
const etd_kernel etd_aten_mean_of_all = {"aten::mean", "dtype_out", "native_call_mean.dtype_out",
                                         ETD_IN_FLOAT32 + 3, etd_run_mean_of_all};
