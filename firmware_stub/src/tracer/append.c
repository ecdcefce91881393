// SPDX-License-Identifier: Apache-2.0
/* Appending records, and the prefix records of an event. */
#include "tracer_internal.h"

/* Stops for good when one item does not fit, so that the log has no holes. */
uint8_t *etd_append(etd_tracer *tracer, uint32_t count) {
    uint32_t used = tracer->record_count;
    if (tracer->full || count > tracer->record_limit - used) {
        etd_set_full(tracer, true);
        return NULL;
    }
    tracer->record_count = used + count;
    return tracer->buffer + used * ETD_LOG_RECORD_SIZE;
}

void etd_set_full(etd_tracer *tracer, bool full) {
    tracer->full = full;
    tracer->record_limit = full ? 0 : (tracer->capacity - tracer->names_size) / ETD_LOG_RECORD_SIZE;
}

static uint8_t *put_delegate(uint8_t *at, const etd_delegate_prefix *delegate) {
    uint32_t flags = delegate->metadata != NULL ? ETD_LOG_DELEGATE_METADATA : 0u;
    etd_put_record(at, etd_head(ETD_LOG_RECORD_DELEGATE, flags, delegate->name), (uint32_t)delegate->id,
                   delegate->length, 0);
    at += ETD_LOG_RECORD_SIZE;
    if (delegate->metadata != NULL) {
        uint32_t padded = etd_records_of(delegate->length) * ETD_LOG_RECORD_SIZE;
        memcpy(at, delegate->metadata, delegate->length);
        memset(at + delegate->length, 0, padded - delegate->length);
        at += padded;
    }
    return at;
}

uint8_t *etd_append_event(etd_tracer *tracer, etd_context *context, uint32_t count) {
    bool wide = !etd_is_narrow(context->chain, context->handle);
    count += wide;
    if (context->delegate != NULL) {
        count += 1u + etd_records_of(context->delegate->length);
    }
    uint8_t *at = etd_append(tracer, count);
    if (at != NULL && wide) {
        etd_put_record(at, ETD_LOG_RECORD_WIDE, (uint32_t)context->chain, context->handle, 0);
        at += ETD_LOG_RECORD_SIZE;
        context->chain = 0;
        context->handle = 0;
    }
    return at != NULL && context->delegate != NULL ? put_delegate(at, context->delegate) : at;
}

/* Separate from etd_append_profile, because almost all events are plain and belong to no delegate. */
void etd_end_profiling(etd_tracer *tracer, etd_event event) {
    if (tracer == NULL) {
        return;
    }
    uint32_t end = etd_now(tracer);
    etd_close_scope(tracer, &event);
    uint32_t chain = (uint32_t)event.chain;
    uint32_t number = tracer->record_count;
    if (!etd_is_plain(&event) || number >= tracer->record_limit) {
        etd_append_profile(tracer, &event, NULL, 0, end);
        return;
    }
    tracer->record_count = number + 1u;
    etd_put_record(tracer->buffer + number * ETD_LOG_RECORD_SIZE,
                   etd_head(ETD_LOG_RECORD_PROFILE, 0, event.name), event.handle | chain << 16, event.start,
                   end);
}

void etd_append_profile(etd_tracer *tracer, const etd_event *event, const etd_delegate_prefix *delegate,
                        uint32_t clock, uint32_t end) {
    if (event->choice >= ETD_BELOW_LEVEL) {
        tracer->filtered_events += event->choice == ETD_FILTERED;
        return;
    }
    etd_context context = {event->chain, event->handle, delegate};
    uint8_t *at = etd_append_event(tracer, &context, 1);
    if (at == NULL) {
        tracer->dropped_events++;
        return;
    }
    uint32_t name = delegate == NULL ? event->name : ETD_LOG_NO_NAME;
    etd_put_record(at, etd_head(ETD_LOG_RECORD_PROFILE, clock, name),
                   context.handle | (uint32_t)context.chain << 16, event->start, end);
    if (tracer->put_counts != NULL) {
        tracer->put_counts(tracer, event);
    }
}
