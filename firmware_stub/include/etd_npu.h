// SPDX-License-Identifier: Apache-2.0
/* The simulated NPU: an example of a backend, and a second clock for tests (schema/npu.toml is what it
 * executes).
 *
 * Its clock runs at 3/8 of the rate of clock domain 0. Like Linux's jiffies the counter starts shortly before
 * it wraps, so that every run sees a wrap. */
#ifndef ETD_NPU_H
#define ETD_NPU_H

#include "etd_port.h"

/* Its place among the clocks that etd_target lists. */
#define ETD_NPU_CLOCK 1

#define ETD_NPU_CLOCK_MULTIPLIER 3u
#define ETD_NPU_CLOCK_DIVISOR 8u

/* The etd_clock that a port lists first among more_clocks, given the rate of clock domain 0. */
#define ETD_NPU_CLOCK_OF(hz_numerator, hz_denominator)                                                       \
    {"simulated NPU", (hz_numerator) * ETD_NPU_CLOCK_MULTIPLIER, (hz_denominator) * ETD_NPU_CLOCK_DIVISOR,   \
     24, false}

/* 1 in firmware that links the backend (cmake/select.cmake): how many clocks a port lists. */
#ifndef ETD_NPU_LINKED
#define ETD_NPU_LINKED 0
#endif

#endif
