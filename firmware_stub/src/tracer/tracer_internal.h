// SPDX-License-Identifier: Apache-2.0
/* What the tracer's files share: space in the log, and what every event begins with. */
#ifndef ETD_TRACER_INTERNAL_H
#define ETD_TRACER_INTERNAL_H

#include <stddef.h>

#include "etd_bytes.h"
#include "etd_tracer.h"

/* For what nearly every event passes through: a call would cost as much as its work. */
#define ETD_INLINE static inline __attribute__((always_inline))

/* block_offset when there is no current block, or none with a record: it did not fit. */
#define ETD_NO_BLOCK UINT32_MAX
#define ETD_LOST_BLOCK (UINT32_MAX - 1u)

/* first_run when no block has ended. */
#define ETD_NO_RUN UINT32_MAX

/* What a DELEGATE record says. */
typedef struct {
    etd_name name; /* the string id */
    int32_t id;
    const void *metadata; /* NULL for none */
    uint32_t length;
} etd_delegate_prefix;

/* Where an event belongs. */
typedef struct {
    int32_t chain;
    uint32_t handle;
    const etd_delegate_prefix *delegate; /* NULL when no delegate logged it */
} etd_context;

/* etd_event.choice */
enum {
    ETD_KEEP,
    ETD_BELOW_LEVEL,
    ETD_FILTERED,
};

/* Whether to log an event, as etd_event.choice. */
uint8_t etd_choose(const etd_tracer *tracer, etd_name name, const char *text, int32_t id, int32_t chain);

/* Whether the filter lets something of that name or id pass. */
bool etd_passes_filter(const etd_tracer *tracer, etd_name name, const char *text, int32_t id);

/* Length of a name as the log keeps it. */
uint32_t etd_name_length(const char *name);

/* The entry of an interned name in the log: its length, then its bytes. */
const uint8_t *etd_name_entry(const etd_tracer *tracer, etd_name name);

/* Appends a BLOCK record and makes it the current block; false when it does not fit. */
bool etd_append_block(etd_tracer *tracer, etd_name name);

/* Drops the oldest runs, until there is room for one as large as any so far. */
void etd_make_room(etd_tracer *tracer);

/* Space for `count` records, or NULL: then the log is full from now on, even for what would still fit. */
uint8_t *etd_append(etd_tracer *tracer, uint32_t count);

/* A full log takes nothing more. Also keeps record_limit true, when names have taken space. */
void etd_set_full(etd_tracer *tracer, bool full);

/* Appends the prefixes that the context needs and makes room for `count` records of the event itself, all
 * or nothing. Returns their place, or NULL. Chain and handle that a prefix states become 0 in the context. */
uint8_t *etd_append_event(etd_tracer *tracer, etd_context *context, uint32_t count);

/* Appends a PROFILE record with its prefixes, if the event was chosen. */
void etd_append_profile(etd_tracer *tracer, const etd_event *event, const etd_delegate_prefix *delegate,
                        uint32_t clock, uint32_t end);

/* A record with its prefixes; those that are not there are NULL. */
typedef struct {
    const uint8_t *wide;
    const uint8_t *delegate;
    const uint8_t *record;
} etd_item;

/* Reads the item at record `number`; returns the number of the record behind it. */
uint32_t etd_read_item(const etd_tracer *tracer, uint32_t number, etd_item *item);

/* Takes note of the end of an event, and of all that started within it. */
static inline void etd_close_scope(etd_tracer *tracer, const etd_event *event) {
    if (event->depth < tracer->open_count) {
        tracer->open_count = event->depth;
    }
}

/* First word of a record: kind, one byte, and a 16-bit field. */
static inline uint32_t etd_head(uint32_t kind, uint32_t byte, uint32_t field) {
    return kind | byte << 8 | field << 16;
}

static inline void etd_put_record(uint8_t *at, uint32_t word0, uint32_t word1, uint32_t word2,
                                  uint32_t word3) {
    etd_put_u32(at, word0);
    etd_put_u32(at + 4, word1);
    etd_put_u32(at + 8, word2);
    etd_put_u32(at + 12, word3);
}

/* Records that `size` bytes fill, the last one padded. */
static inline uint32_t etd_records_of(uint32_t size) {
    return size / ETD_LOG_RECORD_SIZE + (size % ETD_LOG_RECORD_SIZE != 0);
}

/* Whether a record has room for both. */
ETD_INLINE bool etd_is_narrow(int32_t chain, uint32_t handle) {
    return chain == (int16_t)chain && handle == (uint16_t)handle;
}

/* Whether an event is kept, and needs no prefix for where it belongs. */
ETD_INLINE bool etd_is_plain(const etd_event *event) {
    return etd_is_narrow(event->chain, event->handle) && event->choice == ETD_KEEP;
}

/* Opens a scope that has no name yet. What is nested too deep replaces the innermost. */
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

/* Starts the event of an open scope. Its name, which may also be given as text, and its integer delegate id
 * decide whether it is kept. */
ETD_INLINE etd_event etd_start_event(etd_tracer *tracer, etd_open_scope *scope, etd_name name,
                                     const char *text) {
    scope->event.name = name;
    if (tracer->selective) {
        scope->event.choice = etd_choose(tracer, name, text, scope->id, scope->event.chain);
    }
    scope->event.start = tracer->ticks(); /* last, so that the event does not contain its own start */
    return scope->event;
}

/* A name is remembered in one of two places, which its pointer decides. */
ETD_INLINE uint32_t etd_hash(const char *name) {
    return (uint32_t)(uintptr_t)name * 0x9E3779B1u;
}

ETD_INLINE etd_recent_name *etd_first_place(etd_tracer *tracer, uint32_t hash) {
    return &tracer->recent[hash >> (32u - ETD_RECENT_BITS)];
}

/* Whether the name is the one remembered there. Most names are literals, so that the same pointer comes again
 * and again; what it points to may have changed all the same. */
ETD_INLINE bool etd_recall(const etd_tracer *tracer, const etd_recent_name *recent, const char *name) {
    if (recent->from_end == 0) {
        return false;
    }
    const uint8_t *entry = tracer->buffer + (tracer->capacity - recent->from_end);
    const size_t length = entry[0];
    return strncmp(name, (const char *)entry + 1, length) == 0 &&
           (name[length] == '\0' || length == ETD_LOG_MAX_NAME);
}

/* Finds or adds a name that does not stand in its first place. */
etd_name etd_find_name(etd_tracer *tracer, const char *name);

/* etd_intern for a tracer that is there. */
ETD_INLINE etd_name etd_intern_quickly(etd_tracer *tracer, const char *name) {
    if (name == NULL) {
        return ETD_LOG_NO_NAME;
    }
    const etd_recent_name *place = etd_first_place(tracer, etd_hash(name));
    return etd_recall(tracer, place, name) ? place->name : etd_find_name(tracer, name);
}

/* Records of a logged tensor. */
static inline uint32_t etd_tensor_records(uint32_t ndim) {
    return 1u + etd_records_of(8u * ndim);
}

#endif
