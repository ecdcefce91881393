// SPDX-License-Identifier: Apache-2.0
/* Part of etd_marks.h where ETD_OFF is defined. Generated from that header by schema/generate.py. */
#ifndef ETD_MARKS_OFF_H
#define ETD_MARKS_OFF_H

#include "etd_marks.h"

static inline void etd_log_mark_off(etd_tracer *tracer, const char *name) {
    (void)tracer;
    (void)name;
}
#define etd_log_mark etd_log_mark_off

static inline void etd_log_sample_off(etd_tracer *tracer, const char *name, int32_t value) {
    (void)tracer;
    (void)name;
    (void)value;
}
#define etd_log_sample etd_log_sample_off

static inline void etd_log_sample_float_off(etd_tracer *tracer, const char *name, float value) {
    (void)tracer;
    (void)name;
    (void)value;
}
#define etd_log_sample_float etd_log_sample_float_off

#endif
