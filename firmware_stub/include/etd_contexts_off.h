// SPDX-License-Identifier: Apache-2.0
/* Part of etd_contexts.h where ETD_OFF is defined. Generated from that header by schema/generate.py. */
#ifndef ETD_CONTEXTS_OFF_H
#define ETD_CONTEXTS_OFF_H

#include "etd_contexts.h"

static inline void etd_log_switch_off(etd_tracer *tracer, uint32_t flags, const char *name, uint32_t number) {
    (void)tracer;
    (void)flags;
    (void)name;
    (void)number;
}
#define etd_log_switch etd_log_switch_off

static inline void etd_log_task_off(etd_tracer *tracer, const char *name, bool begins) {
    (void)tracer;
    (void)name;
    (void)begins;
}
#define etd_log_task etd_log_task_off

static inline void etd_log_interrupt_off(etd_tracer *tracer, uint32_t number, bool begins) {
    (void)tracer;
    (void)number;
    (void)begins;
}
#define etd_log_interrupt etd_log_interrupt_off

#endif
