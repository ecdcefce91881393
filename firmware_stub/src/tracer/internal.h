/* What the tracer's files share: space in the log, and what every event begins with. */
#ifndef ET_TRACER_INTERNAL_H
#define ET_TRACER_INTERNAL_H

#include <stddef.h>

#include "et_bytes.h"
#include "et_tracer.h"

/* block_offset when there is no current block, or none with a record: it did not fit. */
#define ET_NO_BLOCK UINT32_MAX
#define ET_LOST_BLOCK (UINT32_MAX - 1u)

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

/* Starts an event of a name, which may also be given as text, and an integer delegate id or
 * ET_UNSET_DELEGATE_ID; both decide whether it is kept. */
et_event et_start_event(et_tracer *tracer, et_name name, const char *text, int32_t id, int32_t chain,
                        uint32_t handle);

/* Whether to log an event, as et_event.choice. */
uint8_t et_choose(const et_tracer *tracer, et_name name, const char *text, int32_t id, int32_t chain);

/* Length of a name as the log keeps it. */
uint32_t et_name_length(const char *name);

/* The entry of an interned name in the log: its length, then its bytes. */
const uint8_t *et_name_entry(const et_tracer *tracer, et_name name);

/* Appends a BLOCK record and makes it the current block; false when it does not fit. */
bool et_append_block(et_tracer *tracer, et_name name);

/* Space for `count` records, or NULL: then the log is full from now on, even for what would still fit. */
uint8_t *et_append(et_tracer *tracer, uint32_t count);

/* Appends the prefixes that the context needs and makes room for `count` records of the event itself, all
 * or nothing. Returns their place, or NULL after counting a dropped event. Chain and handle that a prefix
 * states become 0 in the context. */
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

#endif
