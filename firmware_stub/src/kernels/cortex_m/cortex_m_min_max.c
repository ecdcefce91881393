// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/int8_pairs.h"

/* minimum and maximum(self, other, *, out). All have the same scale and zero point, so the int8 values can be
 * compared. */
static const char *minimum(const etd_call *call) {
    return etd_run_int8_pairs(call, 1, 2, etd_smaller_int8s, NULL);
}

static const char *maximum(const etd_call *call) {
    return etd_run_int8_pairs(call, 1, 2, etd_larger_int8s, NULL);
}

const etd_kernel etd_cortex_m_minimum = {"cortex_m::minimum", "out", "native_call_minimum.out", 3, minimum};
const etd_kernel etd_cortex_m_maximum = {"cortex_m::maximum", "out", "native_call_maximum.out", 3, maximum};
