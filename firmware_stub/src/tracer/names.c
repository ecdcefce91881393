// SPDX-License-Identifier: Apache-2.0
/* Interned names, which grow down from the end of the buffer. */
#include "tracer_internal.h"

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

/* Searches all names and adds this one if it is new. */
static etd_name find_or_add(etd_tracer *tracer, const char *name) {
    uint32_t length = etd_name_length(name);
    uint32_t id = tracer->name_count; /* the newest entry is first and has the id name_count - 1 */
    for (uint32_t at = tracer->capacity - tracer->names_size; id > 0; at += 1u + tracer->buffer[at]) {
        id--;
        if (tracer->buffer[at] == length && memcmp(tracer->buffer + at + 1, name, length) == 0) {
            return (etd_name)id;
        }
    }
    return add_name(tracer, name, length);
}

static etd_recent_name *second_place(etd_tracer *tracer, uint32_t hash) {
    return &tracer->recent[hash >> (32u - 2u * ETD_RECENT_BITS) & ((1u << ETD_RECENT_BITS) - 1u)];
}

static void remember(const etd_tracer *tracer, etd_recent_name *place, etd_name name) {
    uint32_t from_end = (uint32_t)(tracer->buffer + tracer->capacity - etd_name_entry(tracer, name));
    if (from_end <= UINT16_MAX) {
        *place = (etd_recent_name){(uint16_t)from_end, name};
    }
}

etd_name etd_find_name(etd_tracer *tracer, const char *name) {
    uint32_t hash = etd_hash(name);
    etd_recent_name *place = etd_first_place(tracer, hash);
    if (place->from_end != 0) {
        place = second_place(tracer, hash);
        if (etd_recall(tracer, place, name)) {
            return place->name;
        }
    }
    etd_name found = find_or_add(tracer, name);
    if (found != ETD_LOG_NO_NAME) {
        remember(tracer, place, found);
    }
    return found;
}

etd_name etd_intern(etd_tracer *tracer, const char *name) {
    return tracer != NULL ? etd_intern_quickly(tracer, name) : ETD_LOG_NO_NAME;
}

const uint8_t *etd_name_entry(const etd_tracer *tracer, etd_name name) {
    const uint8_t *entry = tracer->buffer + (tracer->capacity - tracer->names_size);
    for (uint32_t id = tracer->name_count - 1u; id > name; id--) {
        entry += 1u + entry[0];
    }
    return entry;
}
