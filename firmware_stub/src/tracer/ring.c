// SPDX-License-Identifier: Apache-2.0
/* Reuses the buffer: the next chunk of a streamed log, or room made by dropping the oldest blocks. */
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
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
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

/* Dropping the oldest blocks. */

static uint8_t *record_at(const etd_tracer *tracer, uint32_t number) {
    return tracer->buffer + number * ETD_LOG_RECORD_SIZE;
}

/* Drops the run at record `at`. Moves declarations in it to record *kept and advances *kept. Returns
 * the number of the record after the run. */
static uint32_t drop_run(etd_tracer *tracer, uint32_t at, uint32_t *kept) {
    uint32_t begin = at;
    /* Counted before anything moves, so that a debug probe sees that the log changes. */
    tracer->dropped_runs++;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
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
