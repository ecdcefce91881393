// SPDX-License-Identifier: Apache-2.0
/* Contents of the file: one RunData per block, in log order. */
#include "etdump_writer.h"

/* A block: records [begin, end) of the log. */
typedef struct {
    uint32_t begin;
    uint32_t end;
    uint32_t events;     /* events in the log */
    uint32_t written;    /* events in the file */
    uint32_t allocators; /* allocators declared before its end */
    int32_t bundled_input_index;
    etd_name name;
} block;

static uint32_t kind_at(const etd_tracer *tracer, uint32_t number) {
    return tracer->buffer[number * ETD_LOG_RECORD_SIZE];
}

static bool is_event(const etd_item *item) {
    return item->record[0] == ETD_LOG_RECORD_PROFILE || item->record[0] == ETD_LOG_RECORD_ALLOCATION ||
           item->record[0] == ETD_LOG_RECORD_VALUE;
}

/* Of these the file has nothing, but the block that they are in. */
static bool is_instant(const etd_item *item) {
    return item->record[0] == ETD_LOG_RECORD_SWITCH || item->record[0] == ETD_LOG_RECORD_MARK ||
           item->record[0] == ETD_LOG_RECORD_SAMPLE;
}

static bool is_written(const etd_ed_writer *writer, const etd_item *item) {
    if (item->record[0] == ETD_LOG_RECORD_ALLOCATION) {
        return writer->allocations && (item->record[1] & ETD_LOG_ALLOCATION_FAILED) == 0;
    }
    return is_event(item) && (item->record[0] != ETD_LOG_RECORD_VALUE || etd_ed_has_value(item->record));
}

/* Advances to the next block. Events before the first block form a block without a name; so do allocators in
 * a log without blocks. */
static bool next_block(const etd_ed_writer *writer, block *block) {
    const etd_tracer *tracer = writer->tracer;
    uint32_t at = block->end;
    if (at >= tracer->record_count) {
        return false;
    }
    bool declared;
    do {
        block->begin = at;
        block->events = 0;
        block->written = 0;
        block->name = ETD_LOG_NO_NAME;
        block->bundled_input_index = -1;
        declared = kind_at(tracer, at) == ETD_LOG_RECORD_BLOCK;
        if (declared) {
            const uint8_t *record = tracer->buffer + at * ETD_LOG_RECORD_SIZE;
            block->name = etd_get_u16(record + 2);
            block->bundled_input_index = (int32_t)etd_get_u32(record + 8);
            at++;
        }
        while (at < tracer->record_count && kind_at(tracer, at) != ETD_LOG_RECORD_BLOCK) {
            etd_item item;
            at = etd_read_item(tracer, at, &item);
            block->events += is_event(&item) || is_instant(&item);
            block->written += is_written(writer, &item);
            block->allocators += item.record[0] == ETD_LOG_RECORD_ALLOCATOR;
        }
    } while (!declared && block->events == 0 && at < tracer->record_count);
    block->end = at;
    return declared || block->events > 0 || block->allocators > 0; /* counters alone are no block */
}

int32_t etd_ed_chain(const etd_item *item) {
    return item->wide != NULL ? (int32_t)etd_get_u32(item->wide + 4) : (int16_t)etd_get_u16(item->record + 6);
}

uint32_t etd_ed_instruction(const etd_item *item) {
    return item->wide != NULL ? etd_get_u32(item->wide + 8) : etd_get_u16(item->record + 4);
}

static void put_profile(etd_ed_writer *writer, const etd_item *item) {
    const uint8_t *record = item->record;
    const uint8_t *delegate = item->delegate;
    etd_name name = etd_get_u16(record + 2);
    etd_name delegate_name = delegate != NULL ? etd_get_u16(delegate + 2) : (etd_name)ETD_LOG_NO_NAME;
    uint32_t variant = (name != ETD_LOG_NO_NAME) | (uint32_t)(delegate_name != ETD_LOG_NO_NAME) << 1;
    bool metadata = delegate != NULL && (delegate[1] & ETD_LOG_DELEGATE_METADATA) != 0;

    etd_ed_put_table(writer, metadata ? ETD_ED_PROFILE_METADATA : ETD_ED_PROFILE, variant);
    etd_ed_put_u32(writer, (uint32_t)etd_ed_chain(item));
    etd_ed_put_u64(writer, etd_get_u32(record + 8));
    etd_ed_put_u64(writer, etd_get_u32(record + 12));
    etd_ed_put_u32(writer, etd_ed_instruction(item));
    etd_ed_put_u32(writer, delegate != NULL ? etd_get_u32(delegate + 4) : (uint32_t)ETD_UNSET_DELEGATE_ID);
    etd_ed_put_name(writer, name);
    etd_ed_put_name(writer, delegate_name);
    if (metadata) {
        uint32_t length = etd_get_u32(delegate + 8);
        etd_ed_put_u64(writer, 8); /* offset to the vector, after this field and its padding */
        etd_ed_put_u32(writer, length);
        etd_ed_put(writer, delegate + ETD_LOG_RECORD_SIZE, length);
        etd_ed_align(writer, ETD_ED_CHUNK);
    }
}

static void put_allocation(etd_ed_writer *writer, const uint8_t *record) {
    etd_ed_put_table(writer, ETD_ED_ALLOCATION, 0);
    etd_ed_put_u32(writer, etd_get_u16(record + 2));
    etd_ed_put_u64(writer,
                   (uint64_t)(int32_t)etd_get_u32(record + 8)); /* freed bytes are negative, modulo 2^64 */
}

/* Writes an Event table, directly followed by the table it refers to. */
static void put_event(etd_ed_writer *writer, const etd_item *item) {
    uint8_t kind = item->record[0];
    etd_ed_shape shape = kind == ETD_LOG_RECORD_PROFILE ? ETD_ED_EVENT_PROFILE : ETD_ED_EVENT_ALLOCATION;
    etd_ed_put_table(writer, kind == ETD_LOG_RECORD_VALUE ? ETD_ED_EVENT_DEBUG : shape, 0);
    etd_ed_put_u32(writer, 4);
    if (kind == ETD_LOG_RECORD_PROFILE) {
        put_profile(writer, item);
    } else if (kind == ETD_LOG_RECORD_VALUE) {
        etd_ed_put_debug(writer, item);
    } else {
        put_allocation(writer, item->record);
    }
}

/* Returns a writer that only counts, starting at `position`. */
static etd_ed_writer counting(const etd_ed_writer *writer, uint32_t position) {
    etd_ed_writer dry = *writer;
    dry.sink = NULL;
    dry.position = position;
    return dry;
}

static void put_events(etd_ed_writer *writer, const block *block) {
    etd_ed_put_u32(writer, block->written);
    etd_ed_writer ahead = counting(writer, writer->position + 4u * block->written);
    etd_ed_align(&ahead, ETD_ED_CHUNK);
    /* Pass 0 writes the references and counts what they refer to; pass 1 writes the events. */
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t at = block->begin; at < block->end;) {
            etd_item item;
            at = etd_read_item(writer->tracer, at, &item);
            if (!is_written(writer, &item)) {
                continue;
            }
            if (pass == 0) {
                etd_ed_put_u32(writer, ahead.position - writer->position);
                put_event(&ahead, &item);
            } else {
                put_event(writer, &item);
            }
        }
        etd_ed_align(writer, ETD_ED_CHUNK);
    }
}

static void put_allocators(etd_ed_writer *writer, uint32_t count) {
    etd_ed_put_u32(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        etd_ed_put_u32(writer, 4u * (count - i) + 8u * i);
    }
    uint32_t at = 0;
    while (count > 0) {
        etd_item item;
        at = etd_read_item(writer->tracer, at, &item);
        if (item.record[0] == ETD_LOG_RECORD_ALLOCATOR) {
            etd_ed_put_table(writer, ETD_ED_ALLOCATOR, 0);
            etd_ed_put_name(writer, etd_get_u16(item.record + 2));
            count--;
        }
    }
}

static void put_run(etd_ed_writer *writer, const block *block) {
    uint32_t count = block->allocators;
    etd_ed_put_table(writer, ETD_ED_RUN, count > 0);
    etd_ed_put_name(writer, block->name);
    etd_ed_put_u32(writer, (uint32_t)block->bundled_input_index);
    etd_ed_put_u32(writer, 8);                                       /* allocators, after the table */
    etd_ed_put_u32(writer, 4u + (count > 0 ? 4u + 12u * count : 0)); /* events, after the allocators */
    if (count > 0) {
        put_allocators(writer, count);
    }
    put_events(writer, block);
}

static void put_runs(etd_ed_writer *writer) {
    uint32_t count = 0;
    for (block block = {0}; next_block(writer, &block);) {
        count++;
    }
    etd_ed_put_u32(writer, count);
    etd_ed_writer ahead = counting(writer, writer->position + 4u * count);
    etd_ed_align(&ahead, ETD_ED_CHUNK);
    for (block block = {0}; next_block(writer, &block);) {
        etd_ed_put_u32(writer, ahead.position - writer->position);
        put_run(&ahead, &block);
    }
    etd_ed_align(writer, ETD_ED_CHUNK);
    for (block block = {0}; next_block(writer, &block);) {
        put_run(writer, &block);
    }
}

/* Writes the whole file. `size` is its final size, or any value when only counting. */
static void put_file(etd_ed_writer *writer, uint32_t size) {
    etd_ed_writer ahead = counting(writer, 12);
    etd_ed_put_vtables(&ahead);
    etd_ed_align(&ahead, ETD_ED_CHUNK);
    etd_ed_put_u32(writer, size - 4u);
    etd_ed_put_u32(writer, ahead.position - writer->position);
    etd_ed_put(writer, "ED00", 4);
    etd_ed_put_vtables(writer);
    etd_ed_align(writer, ETD_ED_CHUNK);
    etd_ed_put_table(writer, ETD_ED_DUMP, 0);
    etd_ed_put_u32(writer, 4); /* the vector of runs follows */
    put_runs(writer);
    writer->strings = writer->position;
    etd_ed_put_strings(writer);
}

uint32_t etd_etdump_size(const etd_tracer *tracer, bool allocations) {
    if (tracer == NULL) {
        return 0;
    }
    etd_ed_writer writer = {.tracer = tracer, .allocations = allocations};
    put_file(&writer, 0);
    return writer.position;
}

bool etd_etdump_write(const etd_tracer *tracer, bool allocations, const etd_etdump_sink *sink) {
    if (tracer == NULL) {
        return false;
    }
    etd_ed_writer measured = {.tracer = tracer, .allocations = allocations};
    put_file(&measured, 0);
    etd_ed_writer writer = {.tracer = tracer, .sink = sink, .allocations = allocations};
    writer.strings = measured.strings; /* known only after everything before the strings has been counted */
    put_file(&writer, measured.position);
    return !writer.stopped;
}
