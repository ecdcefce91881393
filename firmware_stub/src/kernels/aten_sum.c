// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"
#include "reduce.h"

/* sum.IntList_out(input, dim?, keepdim, dtype?, *, out) */
static const char *sum(const etd_call *call) {
    return etd_run_reduction(call, false);
}

const etd_kernel etd_aten_sum = {"aten::sum", "IntList_out", "native_call_sum.IntList_out", 5, sum};
