// SPDX-License-Identifier: Apache-2.0
/* Tasks and interrupts that begin or end. */
#include "../tracer/tracer_internal.h"
#include "etd_contexts.h"

void etd_log_switch(etd_tracer *tracer, uint32_t flags, const char *name, uint32_t number) {
    if (tracer == NULL) {
        return;
    }
    if (etd_is_paused(tracer)) {
        tracer->filtered_events++;
        return;
    }
    uint32_t now = etd_now(tracer);
    etd_name id = etd_intern(tracer, name);
    uint8_t *at = etd_append(tracer, 1);
    if (at == NULL) {
        tracer->dropped_events++;
        return;
    }
    if ((flags & ETD_LOG_SWITCH_BEGINS) == 0) {
        now = etd_now(tracer);
    }
    etd_put_record(at, etd_head(ETD_LOG_RECORD_SWITCH, flags, id), now, name == NULL ? number : 0u, 0);
}
