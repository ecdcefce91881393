#include "et_tracer.h"

#include <string.h>

#include "et_bytes.h"

#define NO_BLOCK UINT32_MAX
#define BLOCK_INDEX_AT 8u /* of the bundled input index in a BLOCK record */

void et_tracer_init(et_tracer *tracer, void *buffer, uint32_t size, et_ticks_fn ticks) {
    if (tracer == NULL) {
        return;
    }
    *tracer = (et_tracer){
        .buffer = buffer,
        .capacity = size,
        .ticks = ticks,
        .block_offset = NO_BLOCK,
        .bundled_input_index = -1,
        .chain = ET_UNSET_CHAIN,
        .handle = ET_UNSET_HANDLE,
    };
}

/* Space for `count` records, or NULL: then the log is full from now on, even for what would still fit.
 * A log that stops is a true prefix of what happened; one with holes is not. */
static uint8_t *append(et_tracer *tracer, uint32_t count) {
    uint32_t used = tracer->record_count * ET_LOG_RECORD_SIZE;
    if (tracer->full || count * ET_LOG_RECORD_SIZE > tracer->capacity - tracer->names_size - used) {
        tracer->full = true;
        return NULL;
    }
    tracer->record_count += count;
    return tracer->buffer + used;
}

/* First word of a record: kind, one byte, and a 16-bit field. */
static uint32_t head(uint32_t kind, uint32_t byte, uint32_t field) {
    return kind | byte << 8 | field << 16;
}

static void put_record(uint8_t *at, uint32_t word0, uint32_t word1, uint32_t word2, uint32_t word3) {
    et_put_u32(at, word0);
    et_put_u32(at + 4, word1);
    et_put_u32(at + 8, word2);
    et_put_u32(at + 12, word3);
}

static uint32_t name_length(const char *name) {
    uint32_t length = 0;
    while (length < ET_LOG_MAX_NAME && name[length] != '\0') {
        length++;
    }
    return length;
}

static et_name add_name(et_tracer *tracer, const char *name, uint32_t length) {
    uint32_t used = tracer->record_count * ET_LOG_RECORD_SIZE + tracer->names_size;
    if (1u + length > tracer->capacity - used || tracer->name_count == ET_LOG_NO_NAME) {
        tracer->full = true;
        return ET_LOG_NO_NAME;
    }
    tracer->names_size += 1u + length;
    uint8_t *entry = tracer->buffer + (tracer->capacity - tracer->names_size);
    entry[0] = (uint8_t)length;
    memcpy(entry + 1, name, length);
    return tracer->name_count++;
}

et_name et_intern(et_tracer *tracer, const char *name) {
    if (tracer == NULL || name == NULL || tracer->full) {
        return ET_LOG_NO_NAME;
    }
    uint32_t length = name_length(name);
    uint32_t id = tracer->name_count; /* of the entry before the newest, which comes first */
    for (uint32_t at = tracer->capacity - tracer->names_size; id > 0; at += 1u + tracer->buffer[at]) {
        id--;
        if (tracer->buffer[at] == length && memcmp(tracer->buffer + at + 1, name, length) == 0) {
            return (et_name)id;
        }
    }
    return add_name(tracer, name, length);
}

void et_create_event_block(et_tracer *tracer, const char *name) {
    if (tracer == NULL) {
        return;
    }
    et_name id = et_intern(tracer, name);
    uint8_t *at = append(tracer, 1);
    if (at == NULL) {
        tracer->dropped_blocks++;
        tracer->block_offset = NO_BLOCK; /* the block before is no longer the current one */
        return;
    }
    put_record(at, head(ET_LOG_RECORD_BLOCK, 0, id), 0, (uint32_t)tracer->bundled_input_index, 0);
    tracer->block_offset = (uint32_t)(at - tracer->buffer);
}

void et_set_bundled_input_index(et_tracer *tracer, int32_t index) {
    if (tracer == NULL) {
        return;
    }
    tracer->bundled_input_index = index;
    if (tracer->block_offset != NO_BLOCK) {
        et_put_u32(tracer->buffer + tracer->block_offset + BLOCK_INDEX_AT, (uint32_t)index);
    }
}

void et_set_chain_debug_handle(et_tracer *tracer, int32_t chain, uint32_t handle) {
    if (tracer != NULL) {
        tracer->chain = chain;
        tracer->handle = handle;
    }
}

et_event et_start_profiling_interned(et_tracer *tracer, et_name name, int32_t chain, uint32_t handle) {
    et_event event = {name, chain, handle, 0};
    if (tracer != NULL) {
        if (chain == ET_UNSET_CHAIN) {
            event.chain = tracer->chain;
            event.handle = tracer->handle;
        }
        event.start = tracer->ticks(); /* last, so that the event does not contain its own start */
    }
    return event;
}

et_event et_start_profiling(et_tracer *tracer, const char *name, int32_t chain, uint32_t handle) {
    return et_start_profiling_interned(tracer, et_intern(tracer, name), chain, handle);
}

void et_end_profiling(et_tracer *tracer, et_event event) {
    if (tracer == NULL) {
        return;
    }
    uint32_t end = tracer->ticks();
    bool wide = event.chain != (int16_t)event.chain || event.handle != (uint16_t)event.handle;
    uint8_t *at = append(tracer, wide ? 2 : 1);
    if (at == NULL) {
        tracer->dropped_events++;
        return;
    }
    if (wide) {
        put_record(at, ET_LOG_RECORD_WIDE, (uint32_t)event.chain, event.handle, 0);
        at += ET_LOG_RECORD_SIZE;
        event.chain = 0;
        event.handle = 0;
    }
    put_record(at, head(ET_LOG_RECORD_PROFILE, 0, event.name), event.handle | (uint32_t)event.chain << 16,
               event.start, end);
}

uint32_t et_track_allocator(et_tracer *tracer, const char *name) {
    if (tracer == NULL) {
        return 0;
    }
    uint32_t id = ++tracer->allocator_count;
    et_name name_id = et_intern(tracer, name);
    uint8_t *at = append(tracer, 1);
    if (at == NULL) {
        tracer->dropped_blocks++;
    } else {
        put_record(at, head(ET_LOG_RECORD_ALLOCATOR, 0, name_id), id, 0, 0);
    }
    return id;
}

static void append_allocation(et_tracer *tracer, uint32_t flags, uint32_t allocator, uint32_t size,
                              uint32_t offset) {
    if (tracer == NULL) {
        return;
    }
    uint32_t now = tracer->ticks();
    /* An id that the record cannot hold is dropped like an event that does not fit, not cut to another id. */
    if (allocator > UINT16_MAX) {
        tracer->full = true;
    }
    uint8_t *at = append(tracer, 1);
    if (at == NULL) {
        tracer->dropped_events++;
        return;
    }
    uint32_t written = size > INT32_MAX ? INT32_MAX : size;
    put_record(at, head(ET_LOG_RECORD_ALLOCATION, flags, allocator), now, written, offset);
}

void et_track_allocation(et_tracer *tracer, uint32_t allocator, uint32_t size, uint32_t offset) {
    append_allocation(tracer, 0, allocator, size, offset);
}

void et_track_allocation_failure(et_tracer *tracer, uint32_t allocator, uint32_t size) {
    append_allocation(tracer, ET_LOG_ALLOCATION_FAILED, allocator, size, ET_LOG_NO_OFFSET);
}
