/* Results: a status code for the program, a detail and a text for the person.
 *
 * Status codes are the link's (ET_LINK_STATUS_*), so a failure deep in the runtime reaches the host
 * unchanged. Functions that can fail in more than one way take an et_error; they fill it only on
 * failure. */
#ifndef ET_ERROR_H
#define ET_ERROR_H

#include <stdint.h>

#include "et_link_wire.h"

typedef uint8_t et_status; /* ET_LINK_STATUS_OK is 0 */

#define ET_ERROR_MESSAGE_SIZE 80

typedef struct {
    et_status status;
    uint32_t detail; /* an offset, a size or an instruction; see the status in schema/link.toml */
    char message[ET_ERROR_MESSAGE_SIZE];
} et_error;

/* Fills *error (may be NULL) and returns status. `subject` (may be NULL) is appended to `text`, cut to fit.
 */
et_status et_fail(et_error *error, et_status status, uint32_t detail, const char *text, const char *subject);

/* The same with a message of several parts; the last element is NULL. */
et_status et_fail_parts(et_error *error, et_status status, uint32_t detail, const char *const *parts);

#endif
