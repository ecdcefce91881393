/* What the tracer's files share: space in the log, and what every event begins with. */
#ifndef ET_TRACER_INTERNAL_H
#define ET_TRACER_INTERNAL_H

#include <stddef.h>

#include "et_bytes.h"
#include "et_tracer.h"

/* For what nearly every event passes through: a call would cost as much as its work. */
#define ET_INLINE static inline __attribute__((always_inline))

/* block_offset when there is no current block, or none with a record: it did not fit. */
#define ET_NO_BLOCK UINT32_MAX
#define ET_LOST_BLOCK (UINT32_MAX - 1u)

/* first_run when no block has ended. */
#define ET_NO_RUN UINT32_MAX

/* What a DELEGATE record says. */
typedef struct {
    et_name name; /* the string id */
    int32_t id;
    const void *metadata; /* NULL for none */
    uint32_t length;
} et_delegate_prefix;

/* Where an event belongs. */
typedef struct {
    int32_t chain;
    uint32_t handle;
    const et_delegate_prefix *delegate; /* NULL when no delegate logged it */
} et_context;

/* et_event.choice */
enum {
    ET_KEEP,
    ET_BELOW_LEVEL,
    ET_FILTERED,
};

/* Whether to log an event, as et_event.choice. */
uint8_t et_choose(const et_tracer *tracer, et_name name, const char *text, int32_t id, int32_t chain);

/* Whether the filter lets something of that name or id pass. */
bool et_passes_filter(const et_tracer *tracer, et_name name, const char *text, int32_t id);

/* Length of a name as the log keeps it. */
uint32_t et_name_length(const char *name);

/* The entry of an interned name in the log: its length, then its bytes. */
const uint8_t *et_name_entry(const et_tracer *tracer, et_name name);

/* Appends a BLOCK record and makes it the current block; false when it does not fit. */
bool et_append_block(et_tracer *tracer, et_name name);

/* Drops the oldest runs, until there is room for one as large as any so far. */
void et_make_room(et_tracer *tracer);

/* Space for `count` records, or NULL: then the log is full from now on, even for what would still fit. */
uint8_t *et_append(et_tracer *tracer, uint32_t count);

/* A full log takes nothing more. Also keeps record_limit true, when names have taken space. */
void et_set_full(et_tracer *tracer, bool full);

/* Appends the prefixes that the context needs and makes room for `count` records of the event itself, all
 * or nothing. Returns their place, or NULL. Chain and handle that a prefix states become 0 in the context. */
uint8_t *et_append_event(et_tracer *tracer, et_context *context, uint32_t count);

/* Appends a PROFILE record with its prefixes, if the event was chosen. */
void et_append_profile(et_tracer *tracer, const et_event *event, const et_delegate_prefix *delegate,
                       uint32_t clock, uint32_t end);

/* A record with its prefixes; those that are not there are NULL. */
typedef struct {
    const uint8_t *wide;
    const uint8_t *delegate;
    const uint8_t *record;
} et_item;

/* Reads the item at record `number`; returns the number of the record behind it. */
uint32_t et_read_item(const et_tracer *tracer, uint32_t number, et_item *item);

/* Takes note of the end of an event, and of all that started within it. */
static inline void et_close_scope(et_tracer *tracer, const et_event *event) {
    if (event->depth < tracer->open_count) {
        tracer->open_count = event->depth;
    }
}

/* First word of a record: kind, one byte, and a 16-bit field. */
static inline uint32_t et_head(uint32_t kind, uint32_t byte, uint32_t field) {
    return kind | byte << 8 | field << 16;
}

static inline void et_put_record(uint8_t *at, uint32_t word0, uint32_t word1, uint32_t word2,
                                 uint32_t word3) {
    et_put_u32(at, word0);
    et_put_u32(at + 4, word1);
    et_put_u32(at + 8, word2);
    et_put_u32(at + 12, word3);
}

/* Records that `size` bytes fill, the last one padded. */
static inline uint32_t et_records_of(uint32_t size) {
    return size / ET_LOG_RECORD_SIZE + (size % ET_LOG_RECORD_SIZE != 0);
}

/* Whether a record has room for both. */
ET_INLINE bool et_is_narrow(int32_t chain, uint32_t handle) {
    return chain == (int16_t)chain && handle == (uint16_t)handle;
}

/* Whether an event is kept, and needs no prefix for where it belongs. */
ET_INLINE bool et_is_plain(const et_event *event) {
    return et_is_narrow(event->chain, event->handle) && event->choice == ET_KEEP;
}

/* Opens a scope that has no name yet. What is nested too deep replaces the innermost. */
ET_INLINE et_open_scope *et_enter_scope(et_tracer *tracer, int32_t id, int32_t chain, uint32_t handle) {
    if (chain == ET_UNSET_CHAIN) {
        chain = tracer->chain;
        handle = tracer->handle;
    }
    uint32_t depth = tracer->open_count;
    uint32_t place = depth;
    uint32_t count = depth + 1u;
    if (depth >= ET_TRACER_SCOPES) {
        place = ET_TRACER_SCOPES - 1u;
        count -= depth == UINT8_MAX;
    }
    et_open_scope *scope = &tracer->open[place];
    scope->event.name = ET_LOG_NO_NAME;
    scope->event.choice = ET_KEEP;
    scope->event.depth = (uint8_t)depth;
    scope->event.chain = chain;
    scope->event.handle = handle;
    scope->id = id;
    tracer->open_count = (uint8_t)count;
    return scope;
}

/* Starts the event of an open scope. Its name, which may also be given as text, and its integer delegate id
 * decide whether it is kept. */
ET_INLINE et_event et_start_event(et_tracer *tracer, et_open_scope *scope, et_name name, const char *text) {
    scope->event.name = name;
    if (tracer->selective) {
        scope->event.choice = et_choose(tracer, name, text, scope->id, scope->event.chain);
    }
    scope->event.start = tracer->ticks(); /* last, so that the event does not contain its own start */
    return scope->event;
}

/* A name is remembered in one of two places, which its pointer decides. */
ET_INLINE uint32_t et_hash(const char *name) {
    return (uint32_t)(uintptr_t)name * 0x9E3779B1u;
}

ET_INLINE et_recent_name *et_first_place(et_tracer *tracer, uint32_t hash) {
    return &tracer->recent[hash >> (32u - ET_RECENT_BITS)];
}

/* Whether the name is the one remembered there. Most names are literals, so that the same pointer comes again
 * and again; what it points to may have changed all the same. */
ET_INLINE bool et_recall(const et_tracer *tracer, const et_recent_name *recent, const char *name) {
    if (recent->from_end == 0) {
        return false;
    }
    const uint8_t *entry = tracer->buffer + (tracer->capacity - recent->from_end);
    const size_t length = entry[0];
    return strncmp(name, (const char *)entry + 1, length) == 0 &&
           (name[length] == '\0' || length == ET_LOG_MAX_NAME);
}

/* Finds or adds a name that does not stand in its first place. */
et_name et_find_name(et_tracer *tracer, const char *name);

/* et_intern for a tracer that is there. */
ET_INLINE et_name et_intern_quickly(et_tracer *tracer, const char *name) {
    if (name == NULL) {
        return ET_LOG_NO_NAME;
    }
    const et_recent_name *place = et_first_place(tracer, et_hash(name));
    return et_recall(tracer, place, name) ? place->name : et_find_name(tracer, name);
}

/* Records of a logged tensor. */
static inline uint32_t et_tensor_records(uint32_t ndim) {
    return 1u + et_records_of(8u * ndim);
}

#endif
