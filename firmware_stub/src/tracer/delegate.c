/* Events that a delegate logs about itself. */
#include "internal.h"

et_delegate_event et_start_profiling_delegate(et_tracer *tracer, const char *name, int32_t id) {
    et_delegate_event event = {.id = id};
    et_name number = et_intern(tracer, name);
    event.event = et_start_event(tracer, number, name, id, ET_UNSET_CHAIN, ET_UNSET_HANDLE);
    return event;
}

static et_delegate_prefix prefix(et_name name, int32_t id, const void *metadata, uint32_t length) {
    return (et_delegate_prefix){name, id, metadata, metadata != NULL ? length : 0u};
}

void et_end_profiling_delegate(et_tracer *tracer, et_delegate_event event, const void *metadata,
                               uint32_t length) {
    if (tracer == NULL) {
        return;
    }
    uint32_t end = tracer->ticks();
    et_close_scope(tracer, &event.event);
    et_delegate_prefix delegate = prefix(event.event.name, event.id, metadata, length);
    et_append_profile(tracer, &event.event, &delegate, 0, end);
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
    et_delegate_prefix delegate = prefix(event.name, id, metadata, length);
    et_append_profile(tracer, &event, &delegate, clock, end);
}
