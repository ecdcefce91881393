// SPDX-License-Identifier: Apache-2.0
/* Writes the bytes of an ED00 file front to back.
 *
 * FlatBuffers refer only forward, so tables precede their contents, and all strings are at the end. The
 * vtables are at the start and shared by all tables. Positions count from the size prefix, and alignment is
 * relative to it. */
#ifndef ETD_ETDUMP_WRITER_H
#define ETD_ETDUMP_WRITER_H

#include "../tracer/tracer_internal.h"
#include "etd_etdump.h"

typedef struct {
    const etd_tracer *tracer;
    const etd_etdump_sink *sink; /* NULL to only count */
    uint32_t position;
    uint32_t strings; /* position of the strings */
    bool allocations;
    bool stopped;
} etd_ed_writer;

/* Tables, by the fields they have. */
typedef enum {
    ETD_ED_DUMP,
    ETD_ED_RUN, /* variant 1: has allocators */
    ETD_ED_ALLOCATOR,
    ETD_ED_EVENT_PROFILE,
    ETD_ED_EVENT_ALLOCATION,
    ETD_ED_PROFILE, /* variant bit 0: has a name; bit 1: has a string delegate id */
    ETD_ED_PROFILE_METADATA,
    ETD_ED_ALLOCATION,
    ETD_ED_EVENT_DEBUG,
    ETD_ED_DEBUG,      /* variant 1: has a string delegate id */
    ETD_ED_VALUE_NONE, /* this and the other values, variant 1: program output */
    ETD_ED_VALUE_INT,
    ETD_ED_VALUE_BOOL,
    ETD_ED_VALUE_DOUBLE,
    ETD_ED_VALUE_TENSOR,
    ETD_ED_VALUE_TENSOR_LIST,
    ETD_ED_BOOL,
    ETD_ED_NUMBER, /* 64-bit number */
    ETD_ED_TENSOR,
    ETD_ED_TENSOR_LIST,
    ETD_ED_SHAPES,
} etd_ed_shape;

#define ETD_ED_CHUNK 8u /* alignment of every event, for its 64-bit fields */

/* Write bytes and numbers and advance the position. */
void etd_ed_put(etd_ed_writer *writer, const void *bytes, uint32_t size);
void etd_ed_put_u32(etd_ed_writer *writer, uint32_t value);
void etd_ed_put_u64(etd_ed_writer *writer, uint64_t value);

/* Writes zeros up to a multiple of `alignment`, which is at most 8. */
void etd_ed_align(etd_ed_writer *writer, uint32_t alignment);

/* Writes all vtables. */
void etd_ed_put_vtables(etd_ed_writer *writer);

/* Writes the first word of a table. */
void etd_ed_put_table(etd_ed_writer *writer, etd_ed_shape shape, uint32_t variant);

/* Writes a reference to an interned name, or to the empty string for ETD_LOG_NO_NAME. */
void etd_ed_put_name(etd_ed_writer *writer, etd_name name);

/* Writes all strings. */
void etd_ed_put_strings(etd_ed_writer *writer);

/* etdump_values.c. etd_ed_has_value returns true if the file can represent a VALUE record; it cannot
 * represent a tensor whose data were lost. etd_ed_put_debug writes its DebugEvent. */
bool etd_ed_has_value(const uint8_t *record);
void etd_ed_put_debug(etd_ed_writer *writer, const etd_item *item);

/* Chain and instruction of an item, including a WIDE prefix. */
int32_t etd_ed_chain(const etd_item *item);
uint32_t etd_ed_instruction(const etd_item *item);

#endif
