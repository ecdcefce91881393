// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "elementwise.h"
#include "kernels.h"

/* Reads an optional bound. */
static bool read_bound(const etd_call *call, uint32_t i, double absent, double *bound) {
    *bound = absent;
    return etd_arg_is_none(call, i) || etd_arg_number(call, i, bound);
}

/* clamp(input, min?, max?, *, out), and hardtanh(input, min_val, max_val, *, out), whose bounds are
 * required */
static const char *clamp(const etd_call *call) {
    double low;
    double high;
    if (!read_bound(call, 1, -INFINITY, &low) || !read_bound(call, 2, INFINITY, &high) || isnan(low) ||
        isnan(high)) {
        return "invalid min or max";
    }
    return etd_run_clamp(call, 3, (float)low, (float)high);
}

const etd_kernel etd_aten_clamp = {"aten::clamp", "out", "native_call_clamp.out", 4, clamp};
const etd_kernel etd_aten_hardtanh = {"aten::hardtanh", "out", "native_call_hardtanh.out", 4, clamp};
