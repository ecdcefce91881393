// SPDX-License-Identifier: Apache-2.0
/* Events logged by delegates. */
#include "tracer_internal.h"

etd_delegate_event etd_start_profiling_delegate(etd_tracer *tracer, const char *name, int32_t id) {
    if (tracer == NULL) {
        return (etd_delegate_event){.id = id};
    }
    etd_open_scope *scope = etd_enter_scope(tracer, id, ETD_UNSET_CHAIN, ETD_UNSET_HANDLE);
    etd_name number = name != NULL ? etd_intern(tracer, name) : (etd_name)ETD_LOG_NO_NAME; /* often NULL */
    return (etd_delegate_event){etd_start_event(tracer, scope, number, name), id};
}

/* Fast path for plain events without metadata, which most are. */
static void log_event(etd_tracer *tracer, const etd_event *event, int32_t id, uint32_t clock, uint32_t end,
                      const void *metadata, uint32_t length) {
    uint32_t number = tracer->record_count;
    if (metadata != NULL || !etd_is_plain(event) || number + 2u > tracer->record_limit) {
        etd_delegate_prefix delegate = {event->name, id, metadata, metadata != NULL ? length : 0u};
        etd_append_profile(tracer, event, &delegate, clock, end);
        return;
    }
    uint8_t *at = tracer->buffer + number * ETD_LOG_RECORD_SIZE;
    tracer->record_count = number + 2u;
    etd_put_record(at, etd_head(ETD_LOG_RECORD_DELEGATE, 0, event->name), (uint32_t)id, 0, 0);
    etd_put_record(at + ETD_LOG_RECORD_SIZE, etd_head(ETD_LOG_RECORD_PROFILE, clock, ETD_LOG_NO_NAME),
                   event->handle | (uint32_t)event->chain << 16, event->start, end);
}

void etd_end_profiling_delegate(etd_tracer *tracer, etd_delegate_event event, const void *metadata,
                                uint32_t length) {
    if (tracer == NULL) {
        return;
    }
    uint32_t end = etd_now(tracer);
    etd_close_scope(tracer, &event.event);
    log_event(tracer, &event.event, event.id, 0, end, metadata, length);
}

void etd_log_profiling_delegate(etd_tracer *tracer, const char *name, int32_t id, uint8_t clock,
                                uint32_t start, uint32_t end, const void *metadata, uint32_t length) {
    if (tracer == NULL) {
        return;
    }
    etd_open_scope scope;
    scope.event = (etd_event){
        .name = etd_intern(tracer, name), .chain = tracer->chain, .handle = tracer->handle, .start = start};
    if (tracer->selective) {
        scope.id = id;
        scope.event.choice = etd_choose(tracer, &scope, name);
    }
    log_event(tracer, &scope.event, id, clock, end, metadata, length);
}
