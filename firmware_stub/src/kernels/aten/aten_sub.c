// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/elementwise.h"

/* sub(self, other, *, alpha, out): self - alpha other */
ETD_LINE_FN(sub_floats, float, a - alpha->real * b)
ETD_LINE_FN(sub_doubles, double, a - alpha->precise * b)
ETD_LINE_FN(sub_int32s, uint32_t, a - (uint32_t)alpha->integer * b)
ETD_LINE_FN(sub_int64s, uint64_t, a - alpha->integer * b)

/* rsub(self, other, *, alpha, out): other - alpha self */
ETD_LINE_FN(rsub_floats, float, b - alpha->real * a)
ETD_LINE_FN(rsub_doubles, double, b - alpha->precise * a)
ETD_LINE_FN(rsub_int32s, uint32_t, b - (uint32_t)alpha->integer * a)
ETD_LINE_FN(rsub_int64s, uint64_t, b - alpha->integer * a)

static const etd_operation operation = {ETD_ALL_NUMBER_FNS(sub), .has_alpha = true};

static const etd_operation reverse = {ETD_ALL_NUMBER_FNS(rsub), .has_alpha = true};

static const char *sub(const etd_call *call) {
    return etd_run_binary(call, &operation);
}

static const char *sub_scalar(const etd_call *call) {
    return etd_run_with_scalar(call, &operation);
}

static const char *rsub_scalar(const etd_call *call) {
    return etd_run_with_scalar(call, &reverse);
}

const etd_kernel etd_aten_sub = {"aten::sub", "out", "native_call_sub.out", 4, sub};
const etd_kernel etd_aten_sub_scalar = {"aten::sub", "Scalar_out", "native_call_sub.Scalar_out", 4,
                                        sub_scalar};
const etd_kernel etd_aten_rsub_scalar = {"aten::rsub", "Scalar_out", "native_call_rsub.Scalar_out", 4,
                                         rsub_scalar};
