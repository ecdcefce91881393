// SPDX-License-Identifier: Apache-2.0
/* Blocks, timed scopes, events of delegates, allocations, and the choice of what is logged. */
#include "tracer_internal.h"

#define BLOCK_INDEX_AT 8u /* offset of the bundled input index in a BLOCK record */

/* Debug probes go by these offsets (schema/compact_log.toml), where pointers have 32 bits. */
#define ETD_FIELD_IS_AT(field, offset)                                                                       \
    _Static_assert(sizeof(void *) != 4u || offsetof(etd_tracer, field) == (offset),                          \
                   "a field of etd_tracer is not where debug probes look for it")
ETD_FIELD_IS_AT(buffer, ETD_LOG_TRACER_FIELD_BUFFER);
ETD_FIELD_IS_AT(capacity, ETD_LOG_TRACER_FIELD_CAPACITY);
ETD_FIELD_IS_AT(debug, ETD_LOG_TRACER_FIELD_DEBUG);
ETD_FIELD_IS_AT(debug_capacity, ETD_LOG_TRACER_FIELD_DEBUG_CAPACITY);
ETD_FIELD_IS_AT(record_count, ETD_LOG_TRACER_FIELD_RECORD_COUNT);
ETD_FIELD_IS_AT(name_count, ETD_LOG_TRACER_FIELD_NAME_COUNT);
ETD_FIELD_IS_AT(number, ETD_LOG_TRACER_FIELD_NUMBER);
ETD_FIELD_IS_AT(names_size, ETD_LOG_TRACER_FIELD_NAMES_SIZE);
ETD_FIELD_IS_AT(dropped_events, ETD_LOG_TRACER_FIELD_DROPPED_EVENTS);
ETD_FIELD_IS_AT(dropped_blocks, ETD_LOG_TRACER_FIELD_DROPPED_BLOCKS);
ETD_FIELD_IS_AT(filtered_events, ETD_LOG_TRACER_FIELD_FILTERED_EVENTS);
ETD_FIELD_IS_AT(dropped_values, ETD_LOG_TRACER_FIELD_DROPPED_VALUES);
ETD_FIELD_IS_AT(dropped_runs, ETD_LOG_TRACER_FIELD_DROPPED_RUNS);
ETD_FIELD_IS_AT(chunk, ETD_LOG_TRACER_FIELD_CHUNK);
ETD_FIELD_IS_AT(first_record, ETD_LOG_TRACER_FIELD_FIRST_RECORD);
ETD_FIELD_IS_AT(debug_used, ETD_LOG_TRACER_FIELD_DEBUG_USED);
ETD_FIELD_IS_AT(stack_used, ETD_LOG_TRACER_FIELD_STACK_USED);
ETD_FIELD_IS_AT(stack_size, ETD_LOG_TRACER_FIELD_STACK_SIZE);
ETD_FIELD_IS_AT(full, ETD_LOG_TRACER_FIELD_FULL);
ETD_FIELD_IS_AT(open_count, ETD_LOG_TRACER_FIELD_OPEN_COUNT);

void etd_tracer_init(etd_tracer *tracer, void *buffer, uint32_t size, etd_ticks_fn ticks, void *context) {
    if (tracer == NULL) {
        return;
    }
    uint8_t *start = buffer;
    uint32_t unused = (uint32_t)(-(uintptr_t)start % ETD_RECORD_ALIGNMENT);
    unused = unused < size ? unused : size;
    *tracer = (etd_tracer){
        .magic = ETD_LOG_TRACER_MAGIC,
        .buffer = unused == 0 ? start : start + unused, // a null pointer has no offset
        .capacity = size - unused,
        .ticks = ticks,
        .ticks_context = context,
        .block_offset = ETD_NO_BLOCK,
        .first_run = ETD_NO_RUN,
        .bundled_input_index = -1,
        .chain = ETD_UNSET_CHAIN,
        .handle = ETD_UNSET_HANDLE,
        .profiling_level = ETD_PROFILE_ALL_EVENTS,
    };
    etd_set_full(tracer, false);
}

void etd_set_tracer_number(etd_tracer *tracer, uint16_t number) {
    if (tracer != NULL) {
        tracer->number = number;
    }
}

void etd_set_stack_used(etd_tracer *tracer, uint32_t used, uint32_t size) {
    if (tracer != NULL) {
        tracer->stack_used = used;
        tracer->stack_size = size;
    }
}

void etd_set_when_full(etd_tracer *tracer, etd_when_full when_full) {
    if (tracer != NULL) {
        tracer->when_full = (uint8_t)when_full;
    }
}

void etd_create_event_block(etd_tracer *tracer, const char *name) {
    if (tracer == NULL) {
        return;
    }
    if (etd_is_paused(tracer)) {
        tracer->filtered_events++;
    } else {
        if (tracer->when_full == ETD_WHEN_FULL_DROP_OLDEST_RUNS) {
            etd_make_room(tracer);
        }
        if (etd_append_block(tracer, etd_intern(tracer, name))) {
            return;
        }
        tracer->dropped_blocks++;
    }
    tracer->block_offset = ETD_LOST_BLOCK; /* the previous block is no longer current */
}

bool etd_append_block(etd_tracer *tracer, etd_name name) {
    uint8_t *at = etd_append(tracer, 1);
    if (at == NULL) {
        return false;
    }
    etd_put_record(at, etd_head(ETD_LOG_RECORD_BLOCK, 0, name), 0, (uint32_t)tracer->bundled_input_index, 0);
    tracer->block_offset = (uint32_t)(at - tracer->buffer);
    return true;
}

void etd_set_bundled_input_index(etd_tracer *tracer, int32_t index) {
    if (tracer == NULL) {
        return;
    }
    tracer->bundled_input_index = index;
    if (tracer->block_offset < ETD_LOST_BLOCK) {
        etd_put_u32(tracer->buffer + tracer->block_offset + BLOCK_INDEX_AT, (uint32_t)index);
    }
}

void etd_set_chain_debug_handle(etd_tracer *tracer, int32_t chain, uint32_t handle) {
    if (tracer != NULL) {
        tracer->chain = chain;
        tracer->handle = handle;
    }
}

uint32_t etd_read_ticks(const etd_tracer *tracer) {
    return tracer != NULL ? etd_now(tracer) : 0;
}

etd_event etd_start_profiling_interned(etd_tracer *tracer, etd_name name, int32_t chain, uint32_t handle) {
    if (tracer == NULL) {
        return (etd_event){0};
    }
    return etd_start_event(tracer, etd_enter_scope(tracer, ETD_UNSET_DELEGATE_ID, chain, handle), name, NULL);
}

etd_event etd_start_profiling(etd_tracer *tracer, const char *name, int32_t chain, uint32_t handle) {
    if (tracer == NULL) {
        return (etd_event){0};
    }
    etd_open_scope *scope = etd_enter_scope(tracer, ETD_UNSET_DELEGATE_ID, chain, handle);
    return etd_start_event(tracer, scope, etd_intern(tracer, name), name);
}

etd_event etd_start_profiling_fixed(etd_tracer *tracer, const char *name, int32_t chain, uint32_t handle) {
    if (tracer == NULL) {
        return (etd_event){0};
    }
    etd_open_scope *scope = etd_enter_scope(tracer, ETD_UNSET_DELEGATE_ID, chain, handle);
    return etd_start_event(tracer, scope, etd_intern_quickly(tracer, name, true), name);
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
        tracer->filtered_events += event->choice >= ETD_FILTERED;
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

/* Delegates. */

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

/* Allocators. */

uint32_t etd_track_allocator(etd_tracer *tracer, const char *name) {
    if (tracer == NULL) {
        return 0;
    }
    etd_name name_id = etd_intern(tracer, name);
    uint8_t *at = etd_append(tracer, 1);
    if (at == NULL) {
        tracer->dropped_blocks++;
        return 0;
    }
    uint32_t id = ++tracer->allocator_count;
    etd_put_record(at, etd_head(ETD_LOG_RECORD_ALLOCATOR, 0, name_id), id, 0, 0);
    return id;
}

static int32_t signed_size(uint32_t size) {
    return size > INT32_MAX ? INT32_MAX : (int32_t)size;
}

/* `sign` is 1 for an allocation and -1 for a free. */
static void append_allocation(etd_tracer *tracer, uint32_t allocator, uint32_t size, uint32_t offset,
                              uint32_t flags, int32_t sign) {
    if (tracer == NULL) {
        return;
    }
    if (etd_is_paused(tracer)) {
        tracer->filtered_events++;
        return;
    }
    uint32_t now = etd_now(tracer);
    /* The record has 16 bits for the id. A larger one is dropped, not truncated to the id of another
     * allocator. */
    if (allocator > UINT16_MAX) {
        etd_set_full(tracer, true);
    }
    uint8_t *at = allocator > 0 ? etd_append(tracer, 1) : NULL;
    if (at == NULL) {
        tracer->dropped_events++;
        return;
    }
    etd_put_record(at, etd_head(ETD_LOG_RECORD_ALLOCATION, flags, allocator), now,
                   (uint32_t)(sign * signed_size(size)), offset);
}

void etd_track_allocation(etd_tracer *tracer, uint32_t allocator, uint32_t size, uint32_t offset) {
    append_allocation(tracer, allocator, size, offset, 0, 1);
}

void etd_track_free(etd_tracer *tracer, uint32_t allocator, uint32_t size, uint32_t offset) {
    append_allocation(tracer, allocator, size, offset, 0, -1);
}

void etd_track_allocation_failure(etd_tracer *tracer, uint32_t allocator, uint32_t size) {
    append_allocation(tracer, allocator, size, ETD_LOG_NO_OFFSET, ETD_LOG_ALLOCATION_FAILED, 1);
}

/* Profiling level and event filter. */

void etd_set_event_filter(etd_tracer *tracer, const etd_event_filter *filter) {
    if (tracer != NULL) {
        tracer->filter = filter;
        tracer->selective =
            filter != NULL || tracer->profiling_level != ETD_PROFILE_ALL_EVENTS || tracer->choice != ETD_KEEP;
    }
}

void etd_set_profiling_level(etd_tracer *tracer, etd_profiling_level level) {
    if (tracer != NULL) {
        tracer->profiling_level = (uint8_t)level;
        etd_set_event_filter(tracer, tracer->filter); /* decides again whether to select */
    }
}

void etd_set_paused(etd_tracer *tracer, bool paused) {
    if (tracer != NULL) {
        const uint32_t going = tracer->choice % ETD_FILTERED;
        tracer->choice = (uint8_t)(going | (paused ? ETD_FILTERED : 0u));
        etd_set_event_filter(tracer, tracer->filter);
    }
}

static bool matches(const char *pattern, const uint8_t *name, uint32_t length) {
    uint32_t count = (uint32_t)strlen(pattern);
    bool any_end = count > 0 && pattern[count - 1] == '*';
    count -= any_end;
    bool any_start = count > 0 && pattern[0] == '*';
    pattern += any_start;
    count -= any_start;
    if (count > length || (!any_start && !any_end && count < length)) {
        return false;
    }
    uint32_t last = any_start ? length - count : 0;
    for (uint32_t first = any_end ? 0 : last; first <= last; first++) {
        if (memcmp(name + first, pattern, count) == 0) {
            return true;
        }
    }
    return false;
}

static bool keeps_name(const etd_event_filter *filter, const uint8_t *name, uint32_t length) {
    for (uint32_t i = 0; i < filter->pattern_count; i++) {
        if (matches(filter->patterns[i], name, length)) {
            return true;
        }
    }
    return filter->pattern_count == 0;
}

bool etd_passes_filter(const etd_tracer *tracer, etd_name name, const char *text, int32_t id) {
    const etd_event_filter *filter = tracer->filter;
    if (filter == NULL) {
        return true;
    }
    if (id != ETD_UNSET_DELEGATE_ID) {
        return !filter->by_id || (filter->first_id <= id && id <= filter->last_id);
    }
    if (text != NULL) { /* a full log interns no names, but the filter still applies */
        return keeps_name(filter, (const uint8_t *)text, etd_name_length(text));
    }
    if (name >= tracer->name_count) {
        return true;
    }
    const uint8_t *entry = etd_name_entry(tracer, name);
    return keeps_name(filter, entry + 1, entry[0]);
}

uint8_t etd_choose(const etd_tracer *tracer, const etd_open_scope *scope, const char *text) {
    const etd_event *event = &scope->event;
    if (tracer->profiling_level == ETD_PROFILE_METHOD_ONLY && event->chain != ETD_UNSET_CHAIN) {
        return ETD_BELOW_LEVEL;
    }
    return etd_passes_filter(tracer, event->name, text, scope->id) ? tracer->choice : (uint8_t)ETD_FILTERED;
}
