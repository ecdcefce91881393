// SPDX-License-Identifier: Apache-2.0
/* The log: records grow from the start of the buffer, names from its end; its image for the host is read
 * through a window, because its parts are not contiguous. */
#include "tracer_internal.h"

/* Stops for good when one item does not fit, so that the log has no holes. */
uint8_t *etd_append(etd_tracer *tracer, uint32_t count) {
    uint32_t used = tracer->record_count;
    if (tracer->full || count > tracer->record_limit - used) {
        etd_set_full(tracer, true);
        return NULL;
    }
    tracer->record_count = used + count;
    return tracer->buffer + used * ETD_LOG_RECORD_SIZE;
}

void etd_set_full(etd_tracer *tracer, bool full) {
    tracer->full = full;
    tracer->record_limit = full ? 0 : (tracer->capacity - tracer->names_size) / ETD_LOG_RECORD_SIZE;
}

static uint8_t *put_delegate(uint8_t *at, const etd_delegate_prefix *delegate) {
    uint32_t flags = delegate->metadata != NULL ? ETD_LOG_DELEGATE_METADATA : 0u;
    etd_put_record(at, etd_head(ETD_LOG_RECORD_DELEGATE, flags, delegate->name), (uint32_t)delegate->id,
                   delegate->length, 0);
    at += ETD_LOG_RECORD_SIZE;
    if (delegate->metadata != NULL) {
        uint32_t padded = etd_records_of(delegate->length) * ETD_LOG_RECORD_SIZE;
        memcpy(at, delegate->metadata, delegate->length);
        memset(at + delegate->length, 0, padded - delegate->length);
        at += padded;
    }
    return at;
}

uint8_t *etd_append_event(etd_tracer *tracer, etd_context *context, uint32_t count) {
    bool wide = !etd_is_narrow(context->chain, context->handle);
    count += wide;
    if (context->delegate != NULL) {
        count += 1u + etd_records_of(context->delegate->length);
    }
    uint8_t *at = etd_append(tracer, count);
    if (at != NULL && wide) {
        etd_put_record(at, ETD_LOG_RECORD_WIDE, (uint32_t)context->chain, context->handle, 0);
        at += ETD_LOG_RECORD_SIZE;
        context->chain = 0;
        context->handle = 0;
    }
    return at != NULL && context->delegate != NULL ? put_delegate(at, context->delegate) : at;
}

/* Reading items. */

uint32_t etd_read_item(const etd_tracer *tracer, uint32_t number, etd_item *item) {
    const uint8_t *at = tracer->buffer + number * ETD_LOG_RECORD_SIZE;
    item->wide = NULL;
    item->delegate = NULL;
    if (at[0] == ETD_LOG_RECORD_WIDE) {
        item->wide = at;
        at += ETD_LOG_RECORD_SIZE;
    }
    if (at[0] == ETD_LOG_RECORD_DELEGATE) {
        item->delegate = at;
        at += (1u + etd_records_of(etd_get_u32(at + 8))) * ETD_LOG_RECORD_SIZE;
    }
    item->record = at;
    uint32_t content = at[0] == ETD_LOG_RECORD_VALUE ? etd_get_u16(at + 2) : 0u;
    return (uint32_t)(at - tracer->buffer) / ETD_LOG_RECORD_SIZE + 1u + content;
}

/* Interned names. */

uint32_t etd_name_length(const char *name) {
    uint32_t length = 0;
    while (length < ETD_LOG_MAX_NAME && name[length] != '\0') {
        length++;
    }
    return length;
}

static etd_name add_name(etd_tracer *tracer, const char *name, uint32_t length) {
    uint32_t used = tracer->record_count * ETD_LOG_RECORD_SIZE + tracer->names_size;
    if (tracer->full || 1u + length > tracer->capacity - used || tracer->name_count == ETD_LOG_NO_NAME) {
        etd_set_full(tracer, true);
        return ETD_LOG_NO_NAME;
    }
    tracer->names_size += 1u + length;
    etd_set_full(tracer, false); /* fewer records fit now */
    uint8_t *entry = tracer->buffer + (tracer->capacity - tracer->names_size);
    entry[0] = (uint8_t)length;
    memcpy(entry + 1, name, length);
    return tracer->name_count++;
}

etd_name etd_find_name(etd_tracer *tracer, etd_recent_name *place, const char *name) {
    uint32_t length = 0;
    uint32_t hash = 0;
    for (; length < ETD_LOG_MAX_NAME && name[length] != '\0'; length++) {
        hash = hash * 31u + (uint8_t)name[length];
    }
    hash &= UINT8_MAX;
    const uint8_t *entry = tracer->buffer + (tracer->capacity - tracer->names_size);
    /* Of the newest entry, which is first; wraps after the oldest. */
    uint32_t id = (uint32_t)tracer->name_count - 1u;
    while (id != UINT32_MAX && (entry[0] != length || (id < ETD_HASHED_NAMES && tracer->hashes[id] != hash) ||
                                memcmp(entry + 1, name, length) != 0)) {
        entry += 1u + entry[0];
        id--;
    }
    if (id == UINT32_MAX) {
        id = add_name(tracer, name, length);
        if (id == ETD_LOG_NO_NAME) {
            return ETD_LOG_NO_NAME;
        }
        entry = tracer->buffer + (tracer->capacity - tracer->names_size);
        if (id < ETD_HASHED_NAMES) {
            tracer->hashes[id] = (uint8_t)hash;
        }
    }
    uint32_t from_end = (uint32_t)(tracer->buffer + tracer->capacity - entry);
    if (from_end <= UINT16_MAX) {
        *place = (etd_recent_name){name, (uint16_t)from_end, (etd_name)id};
    }
    return (etd_name)id;
}

etd_name etd_intern(etd_tracer *tracer, const char *name) {
    return tracer != NULL ? etd_intern_quickly(tracer, name, false) : ETD_LOG_NO_NAME;
}

const uint8_t *etd_name_entry(const etd_tracer *tracer, etd_name name) {
    const uint8_t *entry = tracer->buffer + (tracer->capacity - tracer->names_size);
    for (uint32_t id = tracer->name_count - 1u; id > name; id--) {
        entry += 1u + entry[0];
    }
    return entry;
}

/* The image for the host. */

/* The rest of the header: the tracer has these fields in the same order. */
#define COUNTS_AT 12u
#define COUNTS_SIZE (ETD_LOG_HEADER_SIZE - COUNTS_AT)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers of the log are little-endian");
_Static_assert(offsetof(etd_tracer, stack_size) + 4u - offsetof(etd_tracer, record_count) == COUNTS_SIZE,
               "the fields of the header are next to each other");

static void put_header(const etd_tracer *tracer, uint8_t header[ETD_LOG_HEADER_SIZE]) {
    etd_put_u32(header, ETD_LOG_MAGIC);
    header[4] = ETD_LOG_VERSION;
    header[5] = ETD_LOG_RECORD_SIZE;
    etd_put_u16(header + 6, ETD_LOG_HEADER_SIZE);
    etd_put_u32(header + 8, tracer->full ? ETD_LOG_FLAG_FULL : 0u);
    memcpy(header + COUNTS_AT, (const uint8_t *)tracer + offsetof(etd_tracer, record_count), COUNTS_SIZE);
}

/* The rest of a read: skip `skip` bytes of the image, then copy up to `length` bytes to `out`. */
typedef struct {
    uint8_t *out;
    uint32_t skip;
    uint32_t length;
} window;

static void copy_part(window *window, const uint8_t *part, uint32_t size) {
    if (window->skip >= size) {
        window->skip -= size;
        return;
    }
    uint32_t count = size - window->skip;
    if (count > window->length) {
        count = window->length;
    }
    memcpy(window->out, part + window->skip, count);
    window->out += count;
    window->length -= count;
    window->skip = 0;
}

bool etd_log_half_full(const etd_tracer *tracer) {
    return tracer != NULL &&
           (tracer->full || tracer->debug_used > tracer->debug_capacity / 2 ||
            tracer->record_count * ETD_LOG_RECORD_SIZE >= (tracer->capacity - tracer->names_size) / 2);
}

uint32_t etd_log_size(const etd_tracer *tracer) {
    if (tracer == NULL) {
        return 0;
    }
    return ETD_LOG_HEADER_SIZE + tracer->record_count * ETD_LOG_RECORD_SIZE + tracer->names_size;
}

uint32_t etd_log_read(const etd_tracer *tracer, uint32_t offset, void *out, uint32_t length) {
    if (tracer == NULL || length == 0) {
        return 0;
    }
    uint8_t header[ETD_LOG_HEADER_SIZE];
    put_header(tracer, header);
    window window = {.out = out, .skip = offset, .length = length};
    copy_part(&window, header, sizeof header);
    if (tracer->capacity > 0) {
        copy_part(&window, tracer->buffer, tracer->record_count * ETD_LOG_RECORD_SIZE);
        copy_part(&window, tracer->buffer + (tracer->capacity - tracer->names_size), tracer->names_size);
    }
    return length - window.length;
}
