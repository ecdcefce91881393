// SPDX-License-Identifier: Apache-2.0
/* The simulated NPU: an example backend, and a second clock for tests. schema/npu.toml describes its jobs.
 *
 * Its clock runs at 3/8 of the rate of clock domain 0. The counter starts shortly before it wraps, so every
 * run sees a wrap. */
#ifndef ETD_NPU_H
#define ETD_NPU_H

#include "etd_port.h"

/* Clock domain of the NPU: it is the first of etd_target.more_clocks. */
#define ETD_NPU_CLOCK 1

#define ETD_NPU_CLOCK_MULTIPLIER 3u
#define ETD_NPU_CLOCK_DIVISOR 8u

/* The etd_clock to list first in etd_target.more_clocks, given the rate of clock domain 0 in Hz. */
#define ETD_NPU_CLOCK_OF(hz_numerator, hz_denominator)                                                       \
    {"simulated NPU", (hz_numerator) * ETD_NPU_CLOCK_MULTIPLIER, (hz_denominator) * ETD_NPU_CLOCK_DIVISOR,   \
     24, false}

/* Set to 1 by cmake/select.cmake when the backend is linked. Ports use it as etd_target.more_clock_count. */
#ifndef ETD_NPU_LINKED
#define ETD_NPU_LINKED 0
#endif

#endif
