// SPDX-License-Identifier: Apache-2.0
/* Bytes of an ED00 file in the order of their positions.
 *
 * FlatBuffers refer forward only, so tables stand before what they hold, and all strings at the end. The
 * vtables stand at the beginning, shared by all tables. Positions count from the size prefix, and
 * everything is aligned relative to that. */
#ifndef ETD_ETDUMP_WRITER_H
#define ETD_ETDUMP_WRITER_H

#include "../tracer/tracer_internal.h"
#include "etd_etdump.h"

typedef struct {
    const etd_tracer *tracer;
    const etd_etdump_sink *sink; /* NULL only counts */
    uint32_t position;
    uint32_t strings; /* where they begin */
    bool allocations;
    bool stopped;
} etd_ed_writer;

/* Tables by the fields they have. */
typedef enum {
    ETD_ED_DUMP,
    ETD_ED_RUN, /* variant 1: with allocators */
    ETD_ED_ALLOCATOR,
    ETD_ED_EVENT_PROFILE,
    ETD_ED_EVENT_ALLOCATION,
    ETD_ED_PROFILE, /* variants: bit 0 with a name, bit 1 with a string delegate id */
    ETD_ED_PROFILE_METADATA,
    ETD_ED_ALLOCATION,
    ETD_ED_EVENT_DEBUG,
    ETD_ED_DEBUG,      /* variant 1: with a string delegate id */
    ETD_ED_VALUE_NONE, /* of all values, variant 1: outputs of the program */
    ETD_ED_VALUE_INT,
    ETD_ED_VALUE_BOOL,
    ETD_ED_VALUE_DOUBLE,
    ETD_ED_VALUE_TENSOR,
    ETD_ED_VALUE_TENSOR_LIST,
    ETD_ED_BOOL,
    ETD_ED_NUMBER, /* of 64 bits */
    ETD_ED_TENSOR,
    ETD_ED_TENSOR_LIST,
    ETD_ED_SHAPES,
} etd_ed_shape;

#define ETD_ED_CHUNK 8u /* every event begins at a multiple, for its 64-bit fields */

void etd_ed_put(etd_ed_writer *writer, const void *bytes, uint32_t size);
void etd_ed_put_u32(etd_ed_writer *writer, uint32_t value);
void etd_ed_put_u64(etd_ed_writer *writer, uint64_t value);

/* Zeros up to a multiple of `alignment`, at most 8. */
void etd_ed_align(etd_ed_writer *writer, uint32_t alignment);

/* All vtables. */
void etd_ed_put_vtables(etd_ed_writer *writer);

/* The first word of a table. */
void etd_ed_put_table(etd_ed_writer *writer, etd_ed_shape shape, uint32_t variant);

/* A reference to an interned name; ETD_LOG_NO_NAME refers to an empty string. */
void etd_ed_put_name(etd_ed_writer *writer, etd_name name);

/* All strings. */
void etd_ed_put_strings(etd_ed_writer *writer);

/* etdump_values.c: whether a VALUE record can be said in a file, which cannot say that a tensor's bytes are
 * lost; and its DebugEvent. */
bool etd_ed_has_value(const uint8_t *record);
void etd_ed_put_debug(etd_ed_writer *writer, const etd_item *item);

/* Chain and instruction of an item. */
int32_t etd_ed_chain(const etd_item *item);
uint32_t etd_ed_instruction(const etd_item *item);

#endif
