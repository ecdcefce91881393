/* Events that a delegate logs about itself. */
#include "internal.h"

et_delegate_event et_start_profiling_delegate(et_tracer *tracer, const char *name, int32_t id) {
    if (tracer == NULL) {
        return (et_delegate_event){.id = id};
    }
    et_open_scope *scope = et_enter_scope(tracer, id, ET_UNSET_CHAIN, ET_UNSET_HANDLE);
    et_name number = name != NULL ? et_intern(tracer, name) : (et_name)ET_LOG_NO_NAME; /* often none */
    return (et_delegate_event){et_start_event(tracer, scope, number, name), id};
}

/* Most events of delegates are plain and without metadata: these are written at once. */
static void log_event(et_tracer *tracer, const et_event *event, int32_t id, uint32_t clock, uint32_t end,
                      const void *metadata, uint32_t length) {
    uint32_t number = tracer->record_count;
    if (metadata != NULL || !et_is_plain(event) || number + 2u > tracer->record_limit) {
        et_delegate_prefix delegate = {event->name, id, metadata, metadata != NULL ? length : 0u};
        et_append_profile(tracer, event, &delegate, clock, end);
        return;
    }
    uint8_t *at = tracer->buffer + number * ET_LOG_RECORD_SIZE;
    tracer->record_count = number + 2u;
    et_put_record(at, et_head(ET_LOG_RECORD_DELEGATE, 0, event->name), (uint32_t)id, 0, 0);
    et_put_record(at + ET_LOG_RECORD_SIZE, et_head(ET_LOG_RECORD_PROFILE, clock, ET_LOG_NO_NAME),
                  event->handle | (uint32_t)event->chain << 16, event->start, end);
}

void et_end_profiling_delegate(et_tracer *tracer, et_delegate_event event, const void *metadata,
                               uint32_t length) {
    if (tracer == NULL) {
        return;
    }
    uint32_t end = tracer->ticks();
    et_close_scope(tracer, &event.event);
    log_event(tracer, &event.event, event.id, 0, end, metadata, length);
}

void et_log_profiling_delegate(et_tracer *tracer, const char *name, int32_t id, uint8_t clock, uint32_t start,
                               uint32_t end, const void *metadata, uint32_t length) {
    if (tracer == NULL) {
        return;
    }
    et_event event = {
        .name = et_intern(tracer, name), .chain = tracer->chain, .handle = tracer->handle, .start = start};
    if (tracer->selective) {
        event.choice = et_choose(tracer, event.name, name, id, event.chain);
    }
    log_event(tracer, &event, id, clock, end, metadata, length);
}
