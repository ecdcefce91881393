// SPDX-License-Identifier: Apache-2.0
/* Reuses the buffer for the next chunk of the log. */
#include <stdatomic.h>

#include "tracer_internal.h"

/* Copies a record to the start of the new chunk, at or before its old position. Not inlined, to save space.
 */
static __attribute__((noinline)) void carry(etd_tracer *tracer, const uint8_t *record) {
    uint8_t *to = tracer->buffer + tracer->carried * ETD_LOG_RECORD_SIZE;
    memmove(to, record, ETD_LOG_RECORD_SIZE);
    to[1] = ETD_LOG_CARRIED;
    tracer->carried++;
}

void etd_log_recycle(etd_tracer *tracer) {
    if (tracer == NULL) {
        return;
    }
    uint8_t block[ETD_LOG_RECORD_SIZE];
    bool has_block = tracer->block_offset < ETD_LOST_BLOCK;
    if (has_block) { /* declarations may overwrite it */
        memcpy(block, tracer->buffer + tracer->block_offset, sizeof block);
    }
    uint32_t count = tracer->record_count;
    tracer->first_record += count - tracer->carried;
    tracer->carried = 0;
    /* A debug probe sees by first_record that the log changes, so it has to change before records move. */
    atomic_signal_fence(memory_order_seq_cst);
    etd_item item;
    for (uint32_t number = 0; number < count;) {
        number = etd_read_item(tracer, number, &item);
        if (etd_is_declaration(item.record)) {
            carry(tracer, item.record);
        }
    }
    etd_set_full(tracer, false);
    tracer->debug_used = 0;
    uint32_t declarations = tracer->carried;
    tracer->record_count = declarations;
    if (has_block) {
        tracer->block_offset = declarations * ETD_LOG_RECORD_SIZE;
        carry(tracer, block);
        tracer->record_count++;
    } else if (tracer->block_offset ==
               ETD_LOST_BLOCK) { /* repeat the block without its name, which did not fit */
        (void)etd_append_block(tracer, ETD_LOG_NO_NAME);
    }
    if (tracer->first_run != ETD_NO_RUN) {
        tracer->first_run = declarations;
    }
    tracer->chunk++;
}
