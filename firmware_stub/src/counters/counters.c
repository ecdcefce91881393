// SPDX-License-Identifier: Apache-2.0
/* Hardware counters of events. The rest of the tracer knows of them only by `choice` and `put_counts`. */
#include "../tracer/tracer_internal.h"
#include "etd_counters.h"

/* Number of empty events that are measured, after one that fills the caches. */
#define EMPTY_EVENTS 8u

#define INSIDE_AT 8u /* offset in a COUNTER record */
#define AROUND_AT 12u

/* The clock of a tracer that counts. The innermost open event is at its start if its choice still says so. */
static uint32_t read_clock(void *context) {
    etd_counting *counting = context;
    const etd_counter_source *source = counting->source;
    etd_tracer *tracer = counting->tracer;
    uint32_t place = tracer->open_count - 1u; /* wraps to a large number without an open event */
    if (place < ETD_TRACER_SCOPES && tracer->open[place].event.choice == ETD_TO_COUNT) {
        tracer->open[place].event.choice = ETD_COUNTED;
        uint32_t now = counting->ticks(counting->ticks_context);
        source->read(source->context, counting->starts[place]);
        return now;
    }
    source->read(source->context, counting->latest);
    return counting->ticks(counting->ticks_context);
}

/* Returns what counter `number` counted from the start of an event to the last reading. */
static uint32_t count_of(const etd_counting *counting, uint32_t depth, uint32_t number) {
    return (counting->latest[number] - counting->starts[depth][number]) & counting->masks[number];
}

static bool is_same(const etd_event *a, const etd_event *b) {
    return a->start == b->start && a->name == b->name && a->choice == b->choice && a->chain == b->chain &&
           a->handle == b->handle;
}

/* Has no effect on an event that was not counted, or whose place another one has taken since. */
static void put_counts(etd_tracer *tracer, const etd_event *event) {
    const etd_counting *counting = tracer->ticks_context;
    uint32_t depth = event->depth;
    if (event->choice != ETD_COUNTED || depth >= ETD_TRACER_SCOPES ||
        !is_same(&tracer->open[depth].event, event)) {
        return;
    }
    uint32_t records = (counting->count + ETD_LOG_COUNTS_PER_RECORD - 1u) / ETD_LOG_COUNTS_PER_RECORD;
    uint8_t *at = etd_append(tracer, records);
    if (at == NULL) {
        return; /* the event stays, without counts */
    }
    for (uint32_t first = 0; first < counting->count; first += ETD_LOG_COUNTS_PER_RECORD) {
        uint32_t counts[ETD_LOG_COUNTS_PER_RECORD] = {0};
        for (uint32_t i = 0; i < ETD_LOG_COUNTS_PER_RECORD && first + i < counting->count; i++) {
            counts[i] = count_of(counting, depth, first + i);
        }
        etd_put_record(at, etd_head(ETD_LOG_RECORD_COUNTS, first, 0), counts[0], counts[1], counts[2]);
        at += ETD_LOG_RECORD_SIZE;
    }
}

static void run_empty_event(etd_tracer *tracer, uint32_t records) {
    etd_end_profiling(
        tracer, etd_start_profiling_interned(tracer, ETD_LOG_NO_NAME, ETD_UNSET_CHAIN, ETD_UNSET_HANDLE));
    tracer->record_count = records; /* forgets it */
}

/* Measures the costs of empty events, and stores them in the COUNTER records at `declared`, and in the
 * COUNTING record behind them. */
static void measure_costs(etd_tracer *tracer, const etd_counting *counting, uint8_t *declared) {
    uint32_t records = tracer->record_count;
    uint32_t inside[ETD_LOG_COUNTERS];
    memset(inside, 0xFF, sizeof inside);
    for (uint32_t event = 0; event < EMPTY_EVENTS; event++) {
        run_empty_event(tracer, records);
        for (uint32_t i = 0; i < counting->count; i++) {
            uint32_t counted = count_of(counting, 0, i);
            inside[i] = counted < inside[i] ? counted : inside[i];
        }
    }
    /* The clock is read outside of the event around the others, so that it is no part of their counts. */
    uint32_t start = counting->ticks(counting->ticks_context);
    etd_event around =
        etd_start_profiling_interned(tracer, ETD_LOG_NO_NAME, ETD_UNSET_CHAIN, ETD_UNSET_HANDLE);
    for (uint32_t event = 0; event < EMPTY_EVENTS; event++) {
        run_empty_event(tracer, records);
    }
    etd_end_profiling(tracer, around);
    uint32_t end = counting->ticks(counting->ticks_context);
    etd_put_record(declared + counting->count * ETD_LOG_RECORD_SIZE,
                   etd_head(ETD_LOG_RECORD_COUNTING, 0, EMPTY_EVENTS + 1u), start, end, 0);
    for (uint32_t i = 0; i < counting->count; i++) {
        uint8_t *at = declared + i * ETD_LOG_RECORD_SIZE;
        etd_put_u32(at + INSIDE_AT, inside[i]);
        etd_put_u32(at + AROUND_AT, count_of(counting, 0, i) / EMPTY_EVENTS);
    }
    tracer->record_count = records;
    tracer->dropped_events = 0;
    etd_set_full(tracer, false);
}

bool etd_start_counting(etd_tracer *tracer, etd_counting *counting, const etd_counter_source *source,
                        const uint8_t *indexes, uint32_t count) {
    if (tracer == NULL || tracer->put_counts != NULL || !etd_can_count(source, indexes, count)) {
        return false;
    }
    etd_name names[ETD_LOG_COUNTERS];
    for (uint32_t i = 0; i < count; i++) {
        names[i] = etd_intern(tracer, source->counters[indexes[i]].name);
    }
    uint8_t *declared = etd_append(tracer, count + 1u); /* and COUNTING */
    if (declared == NULL) {
        tracer->dropped_blocks += count + 1u;
        return false;
    }
    *counting = (etd_counting){.source = source,
                               .tracer = tracer,
                               .ticks = tracer->ticks,
                               .ticks_context = tracer->ticks_context,
                               .count = count};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = source->counters[indexes[i]].bits;
        counting->masks[i] = UINT32_MAX >> (32u - bits);
        etd_put_record(declared + i * ETD_LOG_RECORD_SIZE, etd_head(ETD_LOG_RECORD_COUNTER, 0, names[i]),
                       bits, 0, 0);
    }
    source->select(source->context, indexes, count);
    tracer->ticks = read_clock;
    tracer->ticks_context = counting;
    tracer->put_counts = put_counts;
    tracer->choice = ETD_TO_COUNT;
    etd_set_event_filter(tracer, tracer->filter); /* decides again whether to select */
    measure_costs(tracer, counting, declared);
    return true;
}
