// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/elementwise.h"

/* add(self, other, *, alpha, out): self + alpha other */
ETD_LINE_FN(add_floats, float, a + alpha->real * b)
ETD_LINE_FN(add_doubles, double, a + alpha->precise * b)
ETD_LINE_FN(add_int32s, uint32_t, a + (uint32_t)alpha->integer * b)
ETD_LINE_FN(add_int64s, uint64_t, a + alpha->integer * b)

static const etd_operation operation = {ETD_ALL_NUMBER_FNS(add), .has_alpha = true};

static const char *add(const etd_call *call) {
    return etd_run_binary(call, &operation);
}

static const char *add_scalar(const etd_call *call) {
    return etd_run_with_scalar(call, &operation);
}

const etd_kernel etd_aten_add = {"aten::add", "out", "native_call_add.out", 4, add};
const etd_kernel etd_aten_add_scalar = {"aten::add", "Scalar_out", "native_call_add.Scalar_out", 4,
                                        add_scalar};
