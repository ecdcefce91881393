// SPDX-License-Identifier: Apache-2.0
/* A flight recorder: a log that keeps the runs of the last moments, for a trigger or a fault. Only firmware
 * that calls this function links it. */
#ifndef ETD_RECORDER_H
#define ETD_RECORDER_H

#include "etd_tracer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Drops the runs that ended more than `ticks` ago, and counts them as dropped. A run is a block and its
 * events. The first block (loading), the newest one, which may not have ended, and declarations stay.
 *
 * Call it before the log is read, when something has happened whose past is of interest, also in a fault
 * handler. Until then ETD_WHEN_FULL_DROP_OLDEST_RUNS keeps as many runs as there is room for. A log that
 * stops when it is full may lack the newest runs, so its runs are not dropped.
 *
 * `clock_bits` is the width of the counter that the tracer reads, as in etd_target.clock_bits: 32, or less if
 * its readings wrap earlier. Ages are exact over any number of wraps, unless no event ended for a whole wrap
 * or longer. Records that stay are moved.
 *
 * Returns false, and drops nothing, if the log stops when it is full (etd_set_when_full), or if `clock_bits`
 * is not 1 to 32. */
bool etd_keep_last(etd_tracer *tracer, uint64_t ticks, uint32_t clock_bits);

#if defined(ETD_OFF) && !defined(ETD_TRACER_SOURCE)
#include "etd_recorder_off.h"
#endif

#ifdef __cplusplus
}
#endif

#endif
