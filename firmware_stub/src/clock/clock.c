// SPDX-License-Identifier: Apache-2.0
/* The counter of a tracer, in a record that later chunks repeat. */
#include "../tracer/tracer_internal.h"
#include "etd_clock.h"

bool etd_log_clock(etd_tracer *tracer, uint32_t hz, uint32_t own, uint64_t reference) {
    if (tracer == NULL) {
        return false;
    }
    uint8_t *at = etd_append(tracer, 1);
    if (at == NULL) {
        tracer->dropped_blocks++; /* as other declarations */
        return false;
    }
    etd_put_record(at, etd_head(ETD_LOG_RECORD_CLOCK, 0, (uint16_t)(reference >> 32)), hz, own,
                   (uint32_t)reference);
    return true;
}
