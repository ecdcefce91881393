#include "kernels.h"
#include "reduce.h"

/* sum.IntList_out(input, dim?, keepdim, dtype?, *, out) */
static const char *sum(const et_call *call) {
    return et_run_reduction(call, false);
}

const et_kernel et_aten_sum = {"aten::sum", "IntList_out", "native_call_sum.IntList_out", 5, sum};
