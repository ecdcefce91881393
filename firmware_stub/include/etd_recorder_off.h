// SPDX-License-Identifier: Apache-2.0
/* Part of etd_recorder.h where ETD_OFF is defined. Generated from that header by schema/generate.py. */
#ifndef ETD_RECORDER_OFF_H
#define ETD_RECORDER_OFF_H

#include "etd_recorder.h"

static inline bool etd_keep_last_off(etd_tracer *tracer, uint64_t ticks, uint32_t clock_bits) {
    (void)tracer;
    (void)ticks;
    (void)clock_bits;
    return false;
}
#define etd_keep_last etd_keep_last_off

#endif
