// SPDX-License-Identifier: Apache-2.0
/* Results: a status code for the program, a detail and a text for the person.
 *
 * Status codes are the link's (ETD_LINK_STATUS_*), so a failure deep in the runtime reaches the host
 * unchanged. Functions that can fail in more than one way take an etd_error; they fill it only on
 * failure. */
#ifndef ETD_ERROR_H
#define ETD_ERROR_H

#include <stdint.h>

#include "etd_link_wire.h"

typedef uint8_t etd_status; /* ETD_LINK_STATUS_OK is 0 */

#define ETD_ERROR_MESSAGE_SIZE 80

typedef struct {
    etd_status status;
    uint32_t detail; /* an offset, a size or an instruction; see the status in schema/link.toml */
    char message[ETD_ERROR_MESSAGE_SIZE];
} etd_error;

/* Fills *error (may be NULL) and returns status. `subject` (may be NULL) is appended to `text`, cut to
 * fit. */
etd_status etd_fail(etd_error *error, etd_status status, uint32_t detail, const char *text,
                    const char *subject);

/* The same with a message of several parts; the last element is NULL. */
etd_status etd_fail_parts(etd_error *error, etd_status status, uint32_t detail, const char *const *parts);

#endif
