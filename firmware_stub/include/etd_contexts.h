// SPDX-License-Identifier: Apache-2.0
/* Tasks and interrupts: when each has the core, so that the host subtracts from an operator's time what
 * others took of it. Only firmware that calls etd_log_switch links this part.
 *
 * Hooks of the operating system call it (docs/library/contexts.md). Give them a tracer of their own with its
 * own number and the clock of the tracer that logs operators, because they interrupt that one. No hook may
 * interrupt another on the same tracer: mask interrupts around the call, or have a tracer for each priority.
 */
#ifndef ETD_CONTEXTS_H
#define ETD_CONTEXTS_H

#include <stddef.h>

#include "etd_tracer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Logs that a task or an interrupt begins or ends to have the core. `flags` are ETD_LOG_SWITCH_*. It is known
 * by its name, which is interned, or by `number` if `name` is NULL. A begin has the time before it is logged,
 * and an end the time after, so that most of the work for the log is not taken for the operator's. */
void etd_log_switch(etd_tracer *tracer, uint32_t flags, const char *name, uint32_t number);

/* Logs a task by its name. A switch from one task to another is the end of one and the begin of the other. */
static inline void etd_log_task(etd_tracer *tracer, const char *name, bool begins) {
    etd_log_switch(tracer, begins ? ETD_LOG_SWITCH_BEGINS : 0u, name, 0);
}

/* Logs an interrupt by its number. The task that it interrupts does not end. Interrupts may nest. */
static inline void etd_log_interrupt(etd_tracer *tracer, uint32_t number, bool begins) {
    etd_log_switch(tracer, ETD_LOG_SWITCH_INTERRUPT | (begins ? ETD_LOG_SWITCH_BEGINS : 0u), NULL, number);
}

#if defined(ETD_OFF) && !defined(ETD_TRACER_SOURCE)
#include "etd_contexts_off.h"
#endif

#ifdef __cplusplus
}
#endif

#endif
