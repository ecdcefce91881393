// SPDX-License-Identifier: Apache-2.0
/* The counter of a tracer, for programs with several tracers: says which counter it reads, and places its log
 * among the others (CLOCK in etd_log_format.h, docs/clocks.md). A program with one tracer needs none of this.
 *
 * Clock domain 0 is the reference. A tracer of an interrupt or of a task of the same core reads it, too: its
 * rate here is 0. A tracer of another core that reads a counter of its own gives the rate of that counter,
 * which counts up and has 32 bits; widen a narrower one (etd_wide_counter.h).
 *
 * Each call appends one record with a pair of readings, taken at the same time. The record stays in the log:
 * a chunk and a dropped run do not remove it. Every tracer, that of clock domain 0 included, logs one before
 * its first event and one after its last event; the check I30 fails without them. From two pairs the host
 * sees that the rate is right, and that no wrap is missing. If a core is idle for longer than a wrap of its
 * counter, log one when it stops to work and one when it begins again. */
#ifndef ETD_CLOCK_H
#define ETD_CLOCK_H

#include "etd_tracer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A reference that was not read. */
#define ETD_NO_REFERENCE ETD_LOG_NO_INSTANT

/* Logs that the counter of this tracer has the rate `hz` (0: it is clock domain 0) and read `own` when clock
 * domain 0 read `reference`. The reference has more bits than the ticks of events, so that wraps can be
 * counted: 64, of which the low 48 are logged. With rate 0, `own` is the low word of `reference`.
 * ETD_NO_REFERENCE only declares the counter: for tracers on clock domain 0 that all log for less than half a
 * wrap together, from the first event of any to the last, and none of which has a pair. Returns false if the
 * log is full. */
bool etd_log_clock(etd_tracer *tracer, uint32_t hz, uint32_t own, uint64_t reference);

#if defined(ETD_OFF) && !defined(ETD_TRACER_SOURCE)
#include "etd_clock_off.h"
#endif

#ifdef __cplusplus
}
#endif

#endif
