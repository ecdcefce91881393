// SPDX-License-Identifier: Apache-2.0
/* Writes the body of an answer field by field. A field that does not fit is left out and sets `overflow`, so
 * a caller checks once, at the end. */
#ifndef ETD_WIRE_H
#define ETD_WIRE_H

#include <stdbool.h>
#include <string.h>

#include "etd_bytes.h"

typedef struct {
    uint8_t *bytes;
    uint32_t capacity;
    uint32_t size;
    bool overflow;
} etd_writer;

/* Returns space for `count` bytes, or NULL. */
static inline uint8_t *etd_write(etd_writer *writer, uint32_t count) {
    if (writer->overflow || count > writer->capacity - writer->size) {
        writer->overflow = true;
        return NULL;
    }
    uint8_t *at = writer->bytes + writer->size;
    writer->size += count;
    return at;
}

static inline void etd_write_u8(etd_writer *writer, uint32_t value) {
    uint8_t *at = etd_write(writer, 1);
    if (at != NULL) {
        *at = (uint8_t)value;
    }
}

static inline void etd_write_u16(etd_writer *writer, uint32_t value) {
    uint8_t *at = etd_write(writer, 2);
    if (at != NULL) {
        etd_put_u16(at, value);
    }
}

static inline void etd_write_u32(etd_writer *writer, uint32_t value) {
    uint8_t *at = etd_write(writer, 4);
    if (at != NULL) {
        etd_put_u32(at, value);
    }
}

static inline void etd_write_bytes(etd_writer *writer, const void *bytes, uint32_t count) {
    uint8_t *at = etd_write(writer, count);
    if (at != NULL) {
        memcpy(at, bytes, count);
    }
}

/* Writes a status byte and three zero bytes, which align the next field. */
static inline void etd_write_status(etd_writer *writer, uint8_t status) {
    etd_write_u32(writer, status);
}

#endif
