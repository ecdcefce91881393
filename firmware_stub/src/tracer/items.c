/* The log read back, item by item. */
#include "internal.h"

uint32_t et_read_item(const et_tracer *tracer, uint32_t number, et_item *item) {
    const uint8_t *at = tracer->buffer + number * ET_LOG_RECORD_SIZE;
    item->wide = NULL;
    item->delegate = NULL;
    if (at[0] == ET_LOG_RECORD_WIDE) {
        item->wide = at;
        at += ET_LOG_RECORD_SIZE;
    }
    if (at[0] == ET_LOG_RECORD_DELEGATE) {
        item->delegate = at;
        at += (1u + et_records_of(et_get_u32(at + 8))) * ET_LOG_RECORD_SIZE;
    }
    item->record = at;
    uint32_t content = at[0] == ET_LOG_RECORD_VALUE ? et_get_u16(at + 2) : 0u;
    return (uint32_t)(at - tracer->buffer) / ET_LOG_RECORD_SIZE + 1u + content;
}
