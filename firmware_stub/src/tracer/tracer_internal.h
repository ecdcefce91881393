// SPDX-License-Identifier: Apache-2.0
/* Shared by the tracer's sources: appending to the log, and starting events. */
#ifndef ETD_TRACER_INTERNAL_H
#define ETD_TRACER_INTERNAL_H

#define ETD_TRACER_SOURCE /* ETD_OFF is for programs that call the tracer */

#include <stddef.h>

#include "etd_bytes.h"
#include "etd_tracer.h"

/* For code that almost every event runs. A function call would cost as much as the work itself. */
#define ETD_INLINE static inline __attribute__((always_inline))

/* Values of block_offset: no current block, and a current block whose record did not fit. */
#define ETD_NO_BLOCK UINT32_MAX
#define ETD_LOST_BLOCK (UINT32_MAX - 1u)

/* Value of first_run: no block has ended yet. */
#define ETD_NO_RUN UINT32_MAX

/* Alignment of records in memory, in bytes. */
#define ETD_RECORD_ALIGNMENT 4u

/* Contents of a DELEGATE record. */
typedef struct {
    etd_name name; /* string id */
    int32_t id;
    const void *metadata; /* NULL for none */
    uint32_t length;
} etd_delegate_prefix;

/* Position of an event in the program. */
typedef struct {
    int32_t chain;
    uint32_t handle;
    const etd_delegate_prefix *delegate; /* NULL if no delegate logged it */
} etd_context;

/* Values of etd_event.choice. The first three are logged. */
enum {
    ETD_KEEP,
    ETD_TO_COUNT, /* with counts, once the counters have been read at its start (etd_counters.h) */
    ETD_COUNTED,
    ETD_BELOW_LEVEL,
    ETD_FILTERED, /* and above: a bit beside the choice that applies after a pause */
};

/* Returns the choice for an event whose fields are set. `text` is its name, if given. */
uint8_t etd_choose(const etd_tracer *tracer, const etd_open_scope *scope, const char *text);

/* Returns true if the filter includes the name or id. */
bool etd_passes_filter(const etd_tracer *tracer, etd_name name, const char *text, int32_t id);

/* Returns the length of a name in the log, in bytes. */
uint32_t etd_name_length(const char *name);

/* Returns the log entry of an interned name: its length, then its bytes. */
const uint8_t *etd_name_entry(const etd_tracer *tracer, etd_name name);

/* Appends a BLOCK record and makes it the current block. Returns false if it does not fit. */
bool etd_append_block(etd_tracer *tracer, etd_name name);

/* Drops the oldest runs until there is room for one as large as the largest so far. */
void etd_make_room(etd_tracer *tracer);

/* Returns space for `count` records, or NULL if it does not fit. The log is then full, even for smaller
 * items. */
uint8_t *etd_append(etd_tracer *tracer, uint32_t count);

/* Marks the log as full or not. Also updates record_limit after names have taken space. */
void etd_set_full(etd_tracer *tracer, bool full);

/* Appends the prefixes that the context needs and reserves `count` records for the event itself, or nothing
 * at all. Returns the reserved space, or NULL. Sets a chain and handle that moved to a prefix to 0 in the
 * context. */
uint8_t *etd_append_event(etd_tracer *tracer, etd_context *context, uint32_t count);

/* Appends a PROFILE record with its prefixes, if the event was chosen. */
void etd_append_profile(etd_tracer *tracer, const etd_event *event, const etd_delegate_prefix *delegate,
                        uint32_t clock, uint32_t end);

/* A record with its prefixes, which are NULL if absent. */
typedef struct {
    const uint8_t *wide;
    const uint8_t *delegate;
    const uint8_t *record;
} etd_item;

/* Reads the item at record `number`. Returns the number of the next record. */
uint32_t etd_read_item(const etd_tracer *tracer, uint32_t number, etd_item *item);

/* Closes the scope of an event and of all events started inside it. */
static inline void etd_close_scope(etd_tracer *tracer, const etd_event *event) {
    if (event->depth < tracer->open_count) {
        tracer->open_count = event->depth;
    }
}

/* Returns the first word of a record: kind, one byte, and a 16-bit field. */
static inline uint32_t etd_head(uint32_t kind, uint32_t byte, uint32_t field) {
    return kind | byte << 8 | field << 16;
}

/* Records are aligned (etd_tracer_init), so that CPUs without unaligned access store words as well. */
static inline void etd_put_record(uint8_t *at, uint32_t word0, uint32_t word1, uint32_t word2,
                                  uint32_t word3) {
    at = __builtin_assume_aligned(at, ETD_RECORD_ALIGNMENT);
    etd_put_u32(at, word0);
    etd_put_u32(at + 4, word1);
    etd_put_u32(at + 8, word2);
    etd_put_u32(at + 12, word3);
}

/* Returns true for records that stay valid until the end of the log. */
static inline bool etd_is_declaration(const uint8_t *record) {
    return (record[0] & ETD_LOG_DECLARATION_MASK) == (ETD_LOG_RECORD_ALLOCATOR & ETD_LOG_DECLARATION_MASK);
}

/* Returns the number of records for `size` bytes. */
static inline uint32_t etd_records_of(uint32_t size) {
    return size / ETD_LOG_RECORD_SIZE + (size % ETD_LOG_RECORD_SIZE != 0);
}

/* Returns true if chain and handle fit into a record. */
ETD_INLINE bool etd_is_narrow(int32_t chain, uint32_t handle) {
    return chain == (int16_t)chain && handle == (uint16_t)handle;
}

/* Returns true between etd_set_paused and its end. */
ETD_INLINE bool etd_is_paused(const etd_tracer *tracer) {
    return tracer->choice >= ETD_FILTERED;
}

/* Returns true if the event is logged and needs no WIDE prefix. */
ETD_INLINE bool etd_is_plain(const etd_event *event) {
    return etd_is_narrow(event->chain, event->handle) && event->choice == ETD_KEEP;
}

/* Opens a scope without a name. A scope nested too deeply replaces the innermost one. */
ETD_INLINE etd_open_scope *etd_enter_scope(etd_tracer *tracer, int32_t id, int32_t chain, uint32_t handle) {
    if (chain == ETD_UNSET_CHAIN) {
        chain = tracer->chain;
        handle = tracer->handle;
    }
    uint32_t depth = tracer->open_count;
    uint32_t place = depth;
    uint32_t count = depth + 1u;
    if (depth >= ETD_TRACER_SCOPES) {
        place = ETD_TRACER_SCOPES - 1u;
        count -= depth == UINT8_MAX;
    }
    etd_open_scope *scope = &tracer->open[place];
    scope->event.name = ETD_LOG_NO_NAME;
    scope->event.choice = ETD_KEEP;
    scope->event.depth = (uint8_t)depth;
    scope->event.chain = chain;
    scope->event.handle = handle;
    scope->id = id;
    tracer->open_count = (uint8_t)count;
    return scope;
}

/* Returns the tick counter of clock domain 0. */
ETD_INLINE uint32_t etd_now(const etd_tracer *tracer) {
    return tracer->ticks(tracer->ticks_context);
}

/* Copies by fields on RISC-V, because GCC calls memcpy there for a structure of this size (-Os). */
ETD_INLINE etd_event etd_copy_event(const etd_event *from) {
#ifdef __riscv
    return (etd_event){from->name, from->choice, from->depth, from->chain, from->handle, from->start};
#else
    return *from;
#endif
}

/* Starts the event of an open scope. Name (also as text, if given) and integer delegate id decide whether it
 * is logged. */
ETD_INLINE etd_event etd_start_event(etd_tracer *tracer, etd_open_scope *scope, etd_name name,
                                     const char *text) {
    scope->event.name = name;
    if (tracer->selective) {
        scope->event.choice = etd_choose(tracer, scope, text);
    }
    scope->event.start = etd_now(tracer); /* last, so that the event does not include its own start */
    return etd_copy_event(&scope->event);
}

_Static_assert((ETD_RECENT_NAMES & (ETD_RECENT_NAMES - 1u)) == 0 && ETD_RECENT_NAMES >= ETD_NAME_PLACES,
               "ETD_RECENT_NAMES is not a power of two, or too small");

/* Returns the cache entry of a pointer. If there is none, returns the one to use for it, which has another
 * pointer. */
ETD_INLINE etd_recent_name *etd_name_place(etd_tracer *tracer, const char *name) {
    const uint32_t hash = (uint32_t)(uintptr_t)name * ETD_NAME_HASH >> 16;
    etd_recent_name *place = &tracer->recent[hash % ETD_RECENT_NAMES];
    for (uint32_t next = 1; place->text != name && place->text != NULL && next <= ETD_NAME_PLACES; next++) {
        place = &tracer->recent[(hash + next) % ETD_RECENT_NAMES];
    }
    return place;
}

/* Returns true if the name at a cached pointer is still the same. Most names are string literals, but a
 * caller may write another text to the same place. */
ETD_INLINE bool etd_is_unchanged(const etd_tracer *tracer, const etd_recent_name *recent) {
    const uint8_t *entry = tracer->buffer + (tracer->capacity - recent->from_end);
    const size_t length = entry[0];
    return strncmp(recent->text, (const char *)entry + 1, length) == 0 &&
           (recent->text[length] == '\0' || length == ETD_LOG_MAX_NAME);
}

/* Searches all names for this one, and adds it if it is new. Remembers it in the cache entry. */
etd_name etd_find_name(etd_tracer *tracer, etd_recent_name *place, const char *name);

/* etd_intern for a tracer that is not NULL. A fixed name is known by its pointer. */
ETD_INLINE etd_name etd_intern_quickly(etd_tracer *tracer, const char *name, bool fixed) {
    if (name == NULL) {
        return ETD_LOG_NO_NAME;
    }
    etd_recent_name *place = etd_name_place(tracer, name);
    if (place->text == name && (fixed || etd_is_unchanged(tracer, place))) {
        return place->name;
    }
    return etd_find_name(tracer, place, name);
}

/* Returns the number of records of a logged tensor: behind the first one, each has a size and a stride of two
 * dimensions. */
static inline uint32_t etd_tensor_records(uint32_t ndim) {
    return 1u + (ndim + 1u) / 2u;
}

#endif
