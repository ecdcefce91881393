// SPDX-License-Identifier: Apache-2.0
/* Part of etd_clock.h where ETD_OFF is defined. Generated from that header by schema/generate.py. */
#ifndef ETD_CLOCK_OFF_H
#define ETD_CLOCK_OFF_H

#include "etd_clock.h"

static inline bool etd_log_clock_off(etd_tracer *tracer, uint32_t hz, uint32_t own, uint64_t reference) {
    (void)tracer;
    (void)hz;
    (void)own;
    (void)reference;
    return false;
}
#define etd_log_clock etd_log_clock_off

#endif
