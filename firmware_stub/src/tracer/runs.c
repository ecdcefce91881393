// SPDX-License-Identifier: Apache-2.0
/* Drops the oldest blocks to make room for a new one. */
#include <stdatomic.h>

#include "tracer_internal.h"

static uint8_t *record_at(const etd_tracer *tracer, uint32_t number) {
    return tracer->buffer + number * ETD_LOG_RECORD_SIZE;
}

/* Drops the run at record `at`. Moves declarations in it to record *kept and advances *kept. Returns
 * the number of the record after the run. */
static uint32_t drop_run(etd_tracer *tracer, uint32_t at, uint32_t *kept) {
    uint32_t begin = at;
    /* Counted before anything moves, so that a debug probe sees that the log changes. */
    tracer->dropped_runs++;
    atomic_signal_fence(memory_order_seq_cst);
    uint32_t copies = record_at(tracer, at)[1] & ETD_LOG_CARRIED;
    tracer->carried -= copies;
    do {
        etd_item item;
        at = etd_read_item(tracer, at, &item);
        if (etd_is_declaration(item.record)) {
            memmove(record_at(tracer, *kept), item.record, ETD_LOG_RECORD_SIZE);
            *kept += 1u;
        }
    } while (at < tracer->record_count && record_at(tracer, at)[0] != ETD_LOG_RECORD_BLOCK);
    tracer->dropped_runs -= at - begin <= copies; /* a lone copy belongs to a run that was already read */
    return at;
}

void etd_make_room(etd_tracer *tracer) {
    if (tracer->block_offset == ETD_NO_BLOCK) {
        return;
    }
    uint32_t count = tracer->record_count;
    if (tracer->first_run == ETD_NO_RUN) {
        tracer->first_run = count; /* the first block ends here */
    }
    uint32_t kept = tracer->first_run;
    uint32_t size = count - tracer->block_offset / ETD_LOG_RECORD_SIZE; /* of the block that ends here */
    if (size <= count - kept && size > tracer->largest_run) {
        tracer->largest_run = size;
    }
    /* If the log is full, the size that the last run needed is unknown. */
    uint32_t needed = tracer->full ? UINT32_MAX : tracer->largest_run;
    etd_set_full(tracer, false);
    uint32_t at = kept;
    while (at < count && tracer->record_limit - (count - (at - kept)) < needed) {
        at = drop_run(tracer, at, &kept);
    }
    tracer->first_run = kept;
    memmove(record_at(tracer, kept), record_at(tracer, at), (count - at) * ETD_LOG_RECORD_SIZE);
    tracer->record_count = count - (at - kept);
}
