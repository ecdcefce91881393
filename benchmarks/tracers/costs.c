// SPDX-License-Identifier: Apache-2.0
/* Costs of the tracer's calls (benchmarks/device_costs.py). Each scenario logs EVENTS events after one round
 * that interns its names. The loop and two readings of the clock are subtracted. */
#include "costs.h"

#include <stddef.h>
#include <string.h>

#include "etd_tracer.h"

#define EVENTS 256u
#define SIMILAR 128u

static uint8_t buffer[48u << 10];
static etd_tracer tracer;
static char similar[SIMILAR][24];

static void one_nothing(uint32_t i) {
    (void)i;
    const etd_ticks_fn volatile clock = cheap_clock; /* called as the tracer does */
    (void)clock(NULL);
    (void)clock(NULL);
}

static void one_unnamed(uint32_t i) {
    etd_end_profiling(&tracer, etd_start_profiling(&tracer, NULL, 0, i));
}

static etd_name interned;
static void one_interned(uint32_t i) {
    etd_end_profiling(&tracer, etd_start_profiling_interned(&tracer, interned, 0, i));
}

static void one_named(uint32_t i) {
    etd_end_profiling(&tracer, etd_start_profiling(&tracer, NAME_OF_20, 0, i));
}

#ifdef ETD_SCOPE
static void one_scope(uint32_t i) {
    etd_end_profiling(&tracer, ETD_SCOPE(&tracer, NAME_OF_20));
}
#endif

#ifdef ETD_SCOPE
static void log_fixed(uint32_t i, uint32_t count) {
    etd_end_profiling(&tracer, etd_start_profiling_fixed(&tracer, similar[i % count], 0, i));
}

static void one_fixed_of_8(uint32_t i) {
    log_fixed(i, 8);
}

static void one_fixed_of_40(uint32_t i) {
    log_fixed(i, 40);
}
#endif

static void log_similar(uint32_t i, uint32_t count) {
    etd_end_profiling(&tracer, etd_start_profiling(&tracer, similar[i % count], 0, i));
}

static void one_of_8(uint32_t i) {
    log_similar(i, 8);
}

static void one_of_40(uint32_t i) {
    log_similar(i, 40);
}

static void one_of_128(uint32_t i) {
    log_similar(i, 128);
}

static void one_delegate(uint32_t i) {
    etd_end_profiling_delegate(&tracer, etd_start_profiling_delegate(&tracer, NULL, (int32_t)i), NULL, 0);
}

static void one_afterwards(uint32_t i) {
    etd_log_profiling_delegate(&tracer, NAME_OF_20, -1, 0, i, i + 1u, NULL, 0);
}

static void one_allocation(uint32_t i) {
    etd_track_allocation(&tracer, 1, i, 16);
}

typedef void (*log_fn)(uint32_t i);

static uint32_t count(log_fn volatile log) {
    uint32_t start = count_now();
    for (uint32_t i = 0; i < EVENTS; i++) {
        log(i);
    }
    return (count_now() - start) & 0xFFFFFFu;
}

static void measure(const char *scenario, log_fn log, log_fn without) {
    etd_tracer_init(&tracer, buffer, sizeof buffer, cheap_clock, NULL);
    etd_create_event_block(&tracer, "Execute");
    interned = etd_intern(&tracer, NAME_OF_20);
    (void)etd_track_allocator(&tracer, "heap");
    (void)count(log); /* interns the names */
    etd_log_recycle(&tracer);
    uint32_t around = count(without);
    uint32_t all = count(log);
    print_count(scenario, tracer.dropped_events > 0 ? 0 : (all - around) / EVENTS);
}

static void one_clockless(uint32_t i) {
    (void)i;
}

static void one_with_clock(uint32_t i) {
    (void)i;
    const etd_ticks_fn volatile clock = cheap_clock;
    (void)clock(NULL);
}

void measure_costs(void) {
    for (uint32_t i = 0; i < SIMILAR; i++) {
        (void)memcpy(similar[i], "native_call_relu000.out", 24);
        similar[i][16] = (char)('0' + i / 100u);
        similar[i][17] = (char)('0' + i / 10u % 10u);
        similar[i][18] = (char)('0' + i % 10u);
    }
    measure("unnamed", one_unnamed, one_nothing);
    measure("interned", one_interned, one_nothing);
#ifdef ETD_SCOPE
    measure("scope", one_scope, one_nothing);
    measure("fixed8", one_fixed_of_8, one_nothing);
    measure("fixed40", one_fixed_of_40, one_nothing);
#endif
    measure("named", one_named, one_nothing);
    measure("names8", one_of_8, one_nothing);
    measure("names40", one_of_40, one_nothing);
    measure("names128", one_of_128, one_nothing);
    measure("delegate", one_delegate, one_nothing);
    measure("afterwards", one_afterwards, one_clockless);
    measure("allocation", one_allocation, one_with_clock);
}
