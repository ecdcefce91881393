// SPDX-License-Identifier: Apache-2.0
/* Reads items of the log. */
#include "tracer_internal.h"

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
