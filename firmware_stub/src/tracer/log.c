// SPDX-License-Identifier: Apache-2.0
/* The log image for the host. Its parts are not contiguous in memory; reading through a window avoids a
 * copy. */
#include <stddef.h>
#include <string.h>

#include "etd_bytes.h"
#include "etd_tracer.h"

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
