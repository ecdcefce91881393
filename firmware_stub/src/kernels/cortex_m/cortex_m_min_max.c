// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/int8_pairs.h"

static int8_t smaller(const void *context, int8_t a, int8_t b) {
    (void)context;
    return a < b ? a : b;
}

static int8_t larger(const void *context, int8_t a, int8_t b) {
    (void)context;
    return a > b ? a : b;
}

/* minimum and maximum(self, other, *, out). All have the same scale and zero point, so the int8 values can be
 * compared. */
static const char *choose(const etd_call *call, etd_pair_fn choice) {
    etd_int8_pairs pairs;
    const char *refusal = etd_read_int8_pairs(call, 0, 1, 2, &pairs);
    if (refusal == NULL) {
        etd_map_int8_pairs(&pairs, choice, NULL);
    }
    return refusal;
}

static const char *minimum(const etd_call *call) {
    return choose(call, smaller);
}

static const char *maximum(const etd_call *call) {
    return choose(call, larger);
}

const etd_kernel etd_cortex_m_minimum = {"cortex_m::minimum", "out", "native_call_minimum.out", 3, minimum};
const etd_kernel etd_cortex_m_maximum = {"cortex_m::maximum", "out", "native_call_maximum.out", 3, maximum};
