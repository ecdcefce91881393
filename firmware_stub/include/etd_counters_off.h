// SPDX-License-Identifier: Apache-2.0
/* Part of etd_counters.h where ETD_OFF is defined. Generated from that header by schema/generate.py. */
#ifndef ETD_COUNTERS_OFF_H
#define ETD_COUNTERS_OFF_H

#include "etd_counters.h"

static inline bool etd_start_counting_off(etd_tracer *tracer, etd_counting *counting,
                                          const etd_counter_source *source, const uint8_t *indexes,
                                          uint32_t count) {
    (void)tracer;
    (void)counting;
    (void)source;
    (void)indexes;
    (void)count;
    return false;
}
#define etd_start_counting etd_start_counting_off

static inline bool etd_can_count_off(const etd_counter_source *source, const uint8_t *indexes,
                                     uint32_t count) {
    (void)source;
    (void)indexes;
    (void)count;
    return false;
}
#define etd_can_count etd_can_count_off

#endif
