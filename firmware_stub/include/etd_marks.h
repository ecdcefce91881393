// SPDX-License-Identifier: Apache-2.0
/* Marks, which are named instants, and samples of named counters, such as a queue's length or a temperature.
 * Neither is a scope: for those, see ETD_SCOPE. Only firmware that calls these functions links this part.
 *
 * Names are interned. A filter and a profiling level do not apply; a pause does. */
#ifndef ETD_MARKS_H
#define ETD_MARKS_H

#include "etd_tracer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Logs an instant. */
void etd_log_mark(etd_tracer *tracer, const char *name);

/* Logs the value that a counter has from now on. */
void etd_log_sample(etd_tracer *tracer, const char *name, int32_t value);
void etd_log_sample_float(etd_tracer *tracer, const char *name, float value);

#if defined(ETD_OFF) && !defined(ETD_TRACER_SOURCE)
#include "etd_marks_off.h"
#endif

#ifdef __cplusplus
}
#endif

#endif
