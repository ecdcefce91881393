/* The simulated NPU: an example of a backend, and a second clock for tests (schema/npu.toml is what it
 * executes).
 *
 * Its clock runs at 3/8 of the rate of clock domain 0. Like Linux's jiffies the counter starts shortly before
 * it wraps, so that every run sees a wrap. */
#ifndef ET_NPU_H
#define ET_NPU_H

#include "et_port.h"

/* Its place among the clocks that et_target lists. */
#define ET_NPU_CLOCK 1

#define ET_NPU_CLOCK_MULTIPLIER 3u
#define ET_NPU_CLOCK_DIVISOR 8u

/* The et_clock that a port lists first among more_clocks, given the rate of clock domain 0. */
#define ET_NPU_CLOCK_OF(hz_numerator, hz_denominator)                                                        \
    {"simulated NPU", (hz_numerator) * ET_NPU_CLOCK_MULTIPLIER, (hz_denominator) * ET_NPU_CLOCK_DIVISOR, 24, \
     false}

/* 1 in firmware that links the backend (cmake/select.cmake): how many clocks a port lists. */
#ifndef ET_NPU_LINKED
#define ET_NPU_LINKED 0
#endif

#endif
