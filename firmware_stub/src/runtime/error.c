#include "et_error.h"

static uint32_t append(char *message, uint32_t length, const char *text) {
    while (*text != '\0' && length < ET_ERROR_MESSAGE_SIZE - 1u) {
        message[length++] = *text++;
    }
    message[length] = '\0';
    return length;
}

et_status et_fail(et_error *error, et_status status, uint32_t detail, const char *text, const char *subject) {
    if (error != 0) {
        error->status = status;
        error->detail = detail;
        uint32_t length = append(error->message, 0, text);
        if (subject != 0) {
            (void)append(error->message, length, subject);
        }
    }
    return status;
}
