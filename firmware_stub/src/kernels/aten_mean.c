#include "kernels.h"
#include "reduce.h"

/* mean.out(input, dim?, keepdim, dtype?, *, out) */
static const char *mean(const et_call *call) {
    return et_run_reduction(call, true);
}

/* mean.dtype_out(input, dtype?, *, out) is what ExecuTorch calls without dimensions. */
const et_kernel et_aten_mean = {"aten::mean", "out", "native_call_mean.out", 5, mean};
const et_kernel et_aten_mean_of_all = {"aten::mean", "dtype_out", "native_call_mean.dtype_out", 3,
                                       et_run_mean_of_all};
