// SPDX-License-Identifier: Apache-2.0
/* Errors: a status code for programs, a detail number and a message for people.
 *
 * Status codes are those of the link (ETD_LINK_STATUS_*), so a failure in the runtime reaches the host
 * unchanged. Functions fill in an etd_error only on failure. */
#ifndef ETD_ERROR_H
#define ETD_ERROR_H

#include <stdint.h>

#include "etd_link_wire.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint8_t etd_status; /* ETD_LINK_STATUS_OK is 0 */

#define ETD_ERROR_MESSAGE_SIZE 80

typedef struct {
    etd_status status;
    uint8_t detail_kind; /* ETD_LINK_DETAIL_KIND_* */
    uint32_t detail;     /* an offset, a size or an instruction, depending on the status (schema/link.toml) */
    char message[ETD_ERROR_MESSAGE_SIZE];
} etd_error;

/* Fills in *error (may be NULL) and returns `status`. Appends `subject` (may be NULL) to `text`. Long
 * messages are truncated. */
etd_status etd_fail(etd_error *error, etd_status status, uint32_t detail, const char *text,
                    const char *subject);

/* As etd_fail, with a message of several parts. The last element of `parts` must be NULL. */
etd_status etd_fail_parts(etd_error *error, etd_status status, uint32_t detail, const char *const *parts);

#ifdef __cplusplus
}
#endif

#endif
