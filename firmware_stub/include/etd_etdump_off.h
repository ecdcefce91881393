// SPDX-License-Identifier: Apache-2.0
/* Part of etd_etdump.h where ETD_OFF is defined. Generated from that header by schema/generate.py. */
#ifndef ETD_ETDUMP_OFF_H
#define ETD_ETDUMP_OFF_H

#include "etd_etdump.h"

static inline uint32_t etd_etdump_size_off(const etd_tracer *tracer, bool allocations) {
    (void)tracer;
    (void)allocations;
    return 0;
}
#define etd_etdump_size etd_etdump_size_off

static inline bool etd_etdump_write_off(const etd_tracer *tracer, bool allocations,
                                        const etd_etdump_sink *sink) {
    (void)tracer;
    (void)allocations;
    (void)sink;
    return false;
}
#define etd_etdump_write etd_etdump_write_off

#endif
