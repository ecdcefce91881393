// SPDX-License-Identifier: Apache-2.0
/* The counter of the NPU, derived from clock domain 0. */
#include "etd_npu.h"
#include "npu_job.h"

/* Cycles before the first wrap. */
#define HEAD_START 0x800u

/* Number of equal clock readings after which the clock is considered stopped. */
#define MAX_EQUAL_READS 1000000u

/* Exact across a wrap of the 32-bit ticks as well, because 2^32 ticks are a multiple of 2^24 cycles. */
uint32_t etd_npu_counter(uint32_t ticks) {
    const uint64_t cycles = (uint64_t)ticks * ETD_NPU_CLOCK_MULTIPLIER / ETD_NPU_CLOCK_DIVISOR;
    return ((uint32_t)cycles - HEAD_START) & ETD_NPU_COUNTER_MASK;
}

bool etd_npu_wait(const etd_tracer *tracer, uint32_t since, uint32_t cycles) {
    const uint64_t needed =
        ((uint64_t)cycles * ETD_NPU_CLOCK_DIVISOR + ETD_NPU_CLOCK_MULTIPLIER - 1u) / ETD_NPU_CLOCK_MULTIPLIER;
    uint32_t last = etd_read_ticks(tracer);
    for (uint32_t still = 0; last - since < needed; still++) {
        const uint32_t now = etd_read_ticks(tracer);
        if (now != last) {
            still = 0;
            last = now;
        } else if (still == MAX_EQUAL_READS) {
            return false;
        }
    }
    return true;
}
