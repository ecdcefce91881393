// SPDX-License-Identifier: Apache-2.0
/* Widens a counter of 8 to 31 bits to 32, for the `ticks` of a port whose timer is narrow.
 *
 * The readings of a narrow counter do not show how often it has wrapped. A wide counter remembers the last
 * reading and adds a wrap whenever a reading is smaller than the one before. So it must be read at least once
 * in every wrap period, 2^bits / rate: a counter of 24 bits at 125 MHz every 134 ms, one of 16 bits at 1 MHz
 * every 65 ms. A period without a reading is lost, and nothing shows that.
 *
 * The tracer reads the clock at both ends of each event, but an operator may take longer than a period, and
 * the server may wait for the host. Read the counter from an interrupt that comes at least twice per period,
 * too, such as that of the timer's overflow, and let it come while the server is quiet. If no interrupt may
 * interfere with a measurement, use a timer of 32 bits instead, or declare the narrow width: the host then
 * knows that it wraps (docs/clocks.md).
 *
 * All functions need mutual exclusion: mask the interrupt around a call from the task. The port declares 32
 * bits, in etd_target.clock_bits and in its board file.
 *
 *   static etd_wide_counter wide;
 *   static uint32_t ticks(void *context) {
 *       (void)context;
 *       mask_timer_interrupt();
 *       uint32_t now = etd_wide_ticks(&wide, timer_count());
 *       unmask_timer_interrupt();
 *       return now;
 *   }
 *   static void restart_clock(void *context) {
 *       ... set the timer to zero ...
 *       etd_wide_start(&wide, 24, timer_count());
 *   } */
#ifndef ETD_WIDE_COUNTER_H
#define ETD_WIDE_COUNTER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A widened counter. Fields are private. */
typedef struct {
    uint32_t mask;  /* largest reading */
    uint32_t last;  /* reading up to which ticks are counted */
    uint32_t ticks; /* since the start; wraps at 2^32 */
} etd_wide_counter;

/* Starts at zero. `bits` is the width of the narrow counter, 1 to 32; `reading` is what it reads now. */
static inline void etd_wide_start(etd_wide_counter *wide, uint32_t bits, uint32_t reading) {
    wide->mask = bits < 32u ? (1u << bits) - 1u : UINT32_MAX;
    wide->last = reading & wide->mask;
    wide->ticks = 0;
}

/* Returns the ticks since the start, for a reading of the narrow counter, which counts up. Readings must be
 * passed in the order in which they were taken, less than a wrap apart. For a counter that counts down, pass
 * its complement (~reading). */
static inline uint32_t etd_wide_ticks(etd_wide_counter *wide, uint32_t reading) {
    reading &= wide->mask;
    wide->ticks += (reading - wide->last) & wide->mask;
    wide->last = reading;
    return wide->ticks;
}

#ifdef __cplusplus
}
#endif

#endif
