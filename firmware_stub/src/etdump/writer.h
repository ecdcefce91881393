/* Bytes of an ED00 file in the order of their positions.
 *
 * FlatBuffers refer forward only, so tables stand before what they hold, and all strings at the end. The
 * vtables stand at the beginning, shared by all tables. Positions count from the size prefix, and
 * everything is aligned relative to that. */
#ifndef ET_ETDUMP_WRITER_H
#define ET_ETDUMP_WRITER_H

#include "../tracer/internal.h"
#include "et_etdump.h"

typedef struct {
    const et_tracer *tracer;
    const et_etdump_sink *sink; /* NULL only counts */
    uint32_t position;
    uint32_t strings; /* where they begin */
    bool allocations;
    bool stopped;
} et_ed_writer;

/* Tables by the fields they have. */
typedef enum {
    ET_ED_DUMP,
    ET_ED_RUN, /* variant 1: with allocators */
    ET_ED_ALLOCATOR,
    ET_ED_EVENT_PROFILE,
    ET_ED_EVENT_ALLOCATION,
    ET_ED_PROFILE, /* variants: bit 0 with a name, bit 1 with a string delegate id */
    ET_ED_PROFILE_METADATA,
    ET_ED_ALLOCATION,
    ET_ED_EVENT_DEBUG,
    ET_ED_DEBUG,      /* variant 1: with a string delegate id */
    ET_ED_VALUE_NONE, /* of all values, variant 1: outputs of the program */
    ET_ED_VALUE_INT,
    ET_ED_VALUE_BOOL,
    ET_ED_VALUE_DOUBLE,
    ET_ED_VALUE_TENSOR,
    ET_ED_VALUE_TENSOR_LIST,
    ET_ED_BOOL,
    ET_ED_NUMBER, /* of 64 bits */
    ET_ED_TENSOR,
    ET_ED_TENSOR_LIST,
    ET_ED_SHAPES,
} et_ed_shape;

#define ET_ED_CHUNK 8u /* every event begins at a multiple, for its 64-bit fields */

void et_ed_put(et_ed_writer *writer, const void *bytes, uint32_t size);
void et_ed_put_u32(et_ed_writer *writer, uint32_t value);
void et_ed_put_u64(et_ed_writer *writer, uint64_t value);

/* Zeros up to a multiple of `alignment`, at most 8. */
void et_ed_align(et_ed_writer *writer, uint32_t alignment);

/* All vtables. */
void et_ed_put_vtables(et_ed_writer *writer);

/* The first word of a table. */
void et_ed_put_table(et_ed_writer *writer, et_ed_shape shape, uint32_t variant);

/* A reference to an interned name; ET_LOG_NO_NAME refers to an empty string. */
void et_ed_put_name(et_ed_writer *writer, et_name name);

/* All strings. */
void et_ed_put_strings(et_ed_writer *writer);

/* values.c: whether a VALUE record can be said in a file, which cannot say that a tensor's bytes are lost;
 * and its DebugEvent. */
bool et_ed_has_value(const uint8_t *record);
void et_ed_put_debug(et_ed_writer *writer, const et_item *item);

/* Chain and instruction of an item. */
int32_t et_ed_chain(const et_item *item);
uint32_t et_ed_instruction(const et_item *item);

#endif
