// SPDX-License-Identifier: Apache-2.0
#include "etd_error.h"

etd_status etd_fail(etd_error *error, etd_status status, uint32_t detail, const char *text,
                    const char *subject) {
    return etd_fail_parts(error, status, detail, (const char *const[]){text, subject, 0});
}

etd_status etd_fail_parts(etd_error *error, etd_status status, uint32_t detail, const char *const *parts) {
    if (error == 0) {
        return status;
    }
    error->status = status;
    error->detail_kind = ETD_LINK_DETAIL_KIND_STATUS;
    error->detail = detail;
    uint32_t length = 0;
    for (; *parts != 0; parts++) {
        for (const char *text = *parts; *text != '\0' && length < ETD_ERROR_MESSAGE_SIZE - 1u; text++) {
            error->message[length++] = *text;
        }
    }
    error->message[length] = '\0';
    return status;
}
