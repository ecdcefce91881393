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
 * handler. Until then ETD_WHEN_FULL_DROP_OLDEST_RUNS keeps as many runs as there is room for. Ages are
 * exact unless no event ended for 2^32 ticks or longer. Records that stay are moved. */
void etd_keep_last(etd_tracer *tracer, uint64_t ticks);

#if defined(ETD_OFF) && !defined(ETD_TRACER_SOURCE)
#include "etd_recorder_off.h"
#endif

#ifdef __cplusplus
}
#endif

#endif
