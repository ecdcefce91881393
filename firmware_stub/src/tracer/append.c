/* Space in the log, and the records that stand before an event. */
#include "internal.h"

/* A log that stops is a true prefix of what happened; one with holes is not. */
uint8_t *et_append(et_tracer *tracer, uint32_t count) {
    uint32_t used = tracer->record_count;
    if (tracer->full || count > tracer->record_limit - used) {
        et_set_full(tracer, true);
        return NULL;
    }
    tracer->record_count = used + count;
    return tracer->buffer + used * ET_LOG_RECORD_SIZE;
}

void et_set_full(et_tracer *tracer, bool full) {
    tracer->full = full;
    tracer->record_limit = full ? 0 : (tracer->capacity - tracer->names_size) / ET_LOG_RECORD_SIZE;
}

static uint8_t *put_delegate(uint8_t *at, const et_delegate_prefix *delegate) {
    uint32_t flags = delegate->metadata != NULL ? ET_LOG_DELEGATE_METADATA : 0u;
    et_put_record(at, et_head(ET_LOG_RECORD_DELEGATE, flags, delegate->name), (uint32_t)delegate->id,
                  delegate->length, 0);
    at += ET_LOG_RECORD_SIZE;
    if (delegate->metadata != NULL) {
        uint32_t padded = et_records_of(delegate->length) * ET_LOG_RECORD_SIZE;
        memcpy(at, delegate->metadata, delegate->length);
        memset(at + delegate->length, 0, padded - delegate->length);
        at += padded;
    }
    return at;
}

uint8_t *et_append_event(et_tracer *tracer, et_context *context, uint32_t count) {
    bool wide = !et_is_narrow(context->chain, context->handle);
    count += wide;
    if (context->delegate != NULL) {
        count += 1u + et_records_of(context->delegate->length);
    }
    uint8_t *at = et_append(tracer, count);
    if (at != NULL && wide) {
        et_put_record(at, ET_LOG_RECORD_WIDE, (uint32_t)context->chain, context->handle, 0);
        at += ET_LOG_RECORD_SIZE;
        context->chain = 0;
        context->handle = 0;
    }
    return at != NULL && context->delegate != NULL ? put_delegate(at, context->delegate) : at;
}

/* Apart from et_append_profile because nearly all events are plain and of no delegate. */
void et_end_profiling(et_tracer *tracer, et_event event) {
    if (tracer == NULL) {
        return;
    }
    uint32_t end = tracer->ticks();
    et_close_scope(tracer, &event);
    uint32_t chain = (uint32_t)event.chain;
    uint32_t number = tracer->record_count;
    if (!et_is_plain(&event) || number >= tracer->record_limit) {
        et_append_profile(tracer, &event, NULL, 0, end);
        return;
    }
    tracer->record_count = number + 1u;
    et_put_record(tracer->buffer + number * ET_LOG_RECORD_SIZE, et_head(ET_LOG_RECORD_PROFILE, 0, event.name),
                  event.handle | chain << 16, event.start, end);
}

void et_append_profile(et_tracer *tracer, const et_event *event, const et_delegate_prefix *delegate,
                       uint32_t clock, uint32_t end) {
    if (event->choice != ET_KEEP) {
        tracer->filtered_events += event->choice == ET_FILTERED;
        return;
    }
    et_context context = {event->chain, event->handle, delegate};
    uint8_t *at = et_append_event(tracer, &context, 1);
    if (at == NULL) {
        tracer->dropped_events++;
        return;
    }
    uint32_t name = delegate == NULL ? event->name : ET_LOG_NO_NAME;
    et_put_record(at, et_head(ET_LOG_RECORD_PROFILE, clock, name),
                  context.handle | (uint32_t)context.chain << 16, event->start, end);
}
