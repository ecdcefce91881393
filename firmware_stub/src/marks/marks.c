// SPDX-License-Identifier: Apache-2.0
/* Marks and samples. */
#include "../tracer/tracer_internal.h"
#include "etd_marks.h"

static void append(etd_tracer *tracer, uint32_t head, const char *name, uint32_t value) {
    if (tracer == NULL) {
        return;
    }
    if (etd_is_paused(tracer)) {
        tracer->filtered_events++;
        return;
    }
    uint32_t now = etd_now(tracer);
    uint32_t id = etd_intern(tracer, name);
    uint8_t *at = etd_append(tracer, 1);
    if (at == NULL) {
        tracer->dropped_events++;
        return;
    }
    etd_put_record(at, head | id << 16, now, value, 0);
}

void etd_log_mark(etd_tracer *tracer, const char *name) {
    append(tracer, etd_head(ETD_LOG_RECORD_MARK, 0, 0), name, 0);
}

void etd_log_sample(etd_tracer *tracer, const char *name, int32_t value) {
    append(tracer, etd_head(ETD_LOG_RECORD_SAMPLE, 0, 0), name, (uint32_t)value);
}

void etd_log_sample_float(etd_tracer *tracer, const char *name, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    append(tracer, etd_head(ETD_LOG_RECORD_SAMPLE, ETD_LOG_SAMPLE_FLOAT, 0), name, bits);
}
