// SPDX-License-Identifier: Apache-2.0
/* Drops runs by their age. */
#include "../tracer/tracer_internal.h"
#include "etd_recorder.h"

#define END_AT 12u /* offset of the end in a PROFILE record */

/* A walk over runs, oldest first. */
typedef struct {
    uint32_t at;           /* record of the next run */
    uint32_t declarations; /* records so far that are kept when runs are dropped */
    uint32_t mask;         /* largest reading of the counter */
    uint32_t end;          /* of the last event so far */
    bool ended;            /* there was one */
} walk;

/* Passes one run, and returns the ticks from the last event before it to its last event. */
static uint32_t pass_run(const etd_tracer *tracer, walk *walk) {
    bool ended = walk->ended;
    uint32_t before = walk->end;
    etd_item item;
    do {
        walk->at = etd_read_item(tracer, walk->at, &item);
        walk->declarations += etd_is_declaration(item.record);
        /* What a delegate logs afterwards may have ended before other events. */
        if (item.record[0] == ETD_LOG_RECORD_PROFILE && item.record[1] == 0 && item.delegate == NULL) {
            walk->end = etd_get_u32(item.record + END_AT);
            walk->ended = true;
        }
    } while (walk->at < tracer->record_count &&
             tracer->buffer[walk->at * ETD_LOG_RECORD_SIZE] != ETD_LOG_RECORD_BLOCK);
    return ended ? (walk->end - before) & walk->mask : 0;
}

bool etd_keep_last(etd_tracer *tracer, uint64_t ticks, uint32_t clock_bits) {
    if (tracer == NULL || tracer->when_full != ETD_WHEN_FULL_DROP_OLDEST_RUNS || clock_bits - 1u >= 32u) {
        return false;
    }
    if (tracer->first_run == ETD_NO_RUN) {
        return true; /* no run has ended */
    }
    uint32_t count = tracer->record_count;
    uint32_t block = tracer->block_offset;
    uint32_t newest = block < ETD_LOST_BLOCK ? block / ETD_LOG_RECORD_SIZE : count;
    walk runs = {.at = tracer->first_run, .mask = UINT32_MAX >> (32u - clock_bits)};
    walk kept = runs;
    uint64_t age = 0; /* of the oldest run */
    while (runs.at < count) {
        age += pass_run(tracer, &runs);
    }
    age += (etd_now(tracer) - runs.end) & runs.mask;
    for (walk next = kept; runs.ended && kept.at < newest; kept = next) {
        age -= pass_run(tracer, &next);
        if (age <= ticks) {
            break;
        }
    }
    uint32_t dropped = kept.at - tracer->first_run - kept.declarations;
    bool full = tracer->full;
    etd_set_full(tracer, false);
    if (dropped > 0) {
        /* So that exactly these runs make room. As no block ends here, its size is 0. */
        uint32_t largest = tracer->largest_run;
        tracer->largest_run = tracer->record_limit - count + dropped;
        tracer->block_offset = count * ETD_LOG_RECORD_SIZE;
        etd_make_room(tracer);
        tracer->largest_run = largest;
        tracer->block_offset = block < ETD_LOST_BLOCK ? block - dropped * ETD_LOG_RECORD_SIZE : block;
    }
    etd_set_full(tracer, full);
    return true;
}
