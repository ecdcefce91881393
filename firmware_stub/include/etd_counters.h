// SPDX-License-Identifier: Apache-2.0
/* Hardware counters of events: up to ETD_LOG_COUNTERS counters are read at the start and at the end of each
 * event, and their differences are logged behind it (COUNTS in etd_log_format.h).
 *
 * A board fills in an etd_counter_source. Only firmware with one links this part of the tracer.
 *
 * While a tracer counts, each reading of its clock also reads the counters: at the start of an event after
 * the clock, at its end before the clock. So counts have less of the tracer's own work in them than times
 * have. */
#ifndef ETD_COUNTERS_H
#define ETD_COUNTERS_H

#include "etd_tracer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A hardware counter. */
typedef struct {
    const char *name; /* such as "instret" or "load_stall" */
    uint8_t bits;     /* 1 to 32; only the low 32 bits of a wider counter are read */
    bool selectable;  /* takes one of the source's selectable hardware counters, while it is counted */
} etd_counter;

/* State of a tracer that counts. Fields are private. */
typedef struct etd_counting etd_counting;

typedef struct etd_counter_source etd_counter_source;

/* The counters of a core. It must outlive the tracers that use it. */
struct etd_counter_source {
    void *context; /* passed to every function; may be NULL */
    const etd_counter *counters;
    uint8_t counter_count;
    uint8_t selectable_count; /* how many selectable counters count at once */
    /* Starts to count the counters with these indexes; at most ETD_LOG_COUNTERS, of which no more than
     * `selectable_count` are selectable. */
    void (*select)(void *context, const uint8_t *indexes, uint32_t count);
    /* Reads the selected counters, in their order. Called in the timed part of events. */
    void (*read)(void *context, uint32_t *values);
    /* etd_start_counting, behind a pointer: a server without counters does not link it. */
    bool (*start)(etd_tracer *tracer, etd_counting *counting, const etd_counter_source *source,
                  const uint8_t *indexes, uint32_t count);
    etd_counting *counting; /* for the server's tracer */
};

struct etd_counting {
    const etd_counter_source *source;
    etd_tracer *tracer;
    etd_ticks_fn ticks; /* the tracer's clock */
    void *ticks_context;
    uint32_t count;
    uint32_t masks[ETD_LOG_COUNTERS];
    uint32_t starts[ETD_TRACER_SCOPES][ETD_LOG_COUNTERS]; /* of open events, by depth */
    uint32_t latest[ETD_LOG_COUNTERS];                    /* when the clock was last read */
};

/* Lets the tracer count the source's counters with these indexes, and logs their names, widths and costs, and
 * the cost of an event in ticks. Call it directly after etd_tracer_init. Returns false, and nothing counts,
 * if there is no such counter, if these cannot count at once, if the tracer counts already, or if the log is
 * full. `counting` must outlive its use.
 */
bool etd_start_counting(etd_tracer *tracer, etd_counting *counting, const etd_counter_source *source,
                        const uint8_t *indexes, uint32_t count);

/* Returns whether there are counters with all of these indexes, and they can count at once. */
static inline bool etd_can_count(const etd_counter_source *source, const uint8_t *indexes, uint32_t count) {
    uint32_t selectable = 0;
    if (count == 0 || count > ETD_LOG_COUNTERS) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (indexes[i] >= source->counter_count) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (indexes[j] == indexes[i]) {
                return false;
            }
        }
        selectable += source->counters[indexes[i]].selectable;
    }
    return selectable <= source->selectable_count;
}

#if defined(ETD_OFF) && !defined(ETD_TRACER_SOURCE)
#include "etd_counters_off.h"
#endif

#ifdef __cplusplus
}
#endif

#endif
