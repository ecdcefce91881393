// SPDX-License-Identifier: Apache-2.0
/* Hardware counters of RISC-V cores. mcycle and minstret are on all of them. The others are the core's, and
 * port.cmake says whose: ETD_COUNTERS_CV32E40P counts events that are selected, ETD_COUNTERS_IBEX has a
 * counter for each event. */
#include <stddef.h>
#include <string.h>

#include "machine_riscv.h"

#define READ_CSR(name, value) __asm volatile("csrr %0, " name : "=r"(value))

/* An instruction has the number of its CSR in itself, so each counter needs a case of its own. */
#define FIRST_NUMBER 3u /* of mhpmcounter */
#define READ_CASE(number)                                                                                    \
    case FIRST_EVENT + (number) - FIRST_NUMBER:                                                              \
        READ_CSR("mhpmcounter" #number, value);                                                              \
        break;
#define SELECT_CASE(number)                                                                                  \
    case number:                                                                                             \
        __asm volatile("csrw mhpmevent" #number ", %0" ::"r"(mask));                                         \
        break;

/* The CSR of a counter is its place in this list. */
enum {
    CYCLES,
    INSTRET,
    FIRST_EVENT, /* mhpmcounter3 */
};

#if defined(ETD_COUNTERS_CV32E40P)
#define SELECTABLE 8 /* of the core's parameter NUM_MHPMCOUNTERS */
#define EVENT(name) {name, 32, true}
#define EACH_EVENT_COUNTER(X) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10)
#elif defined(ETD_COUNTERS_IBEX)
#define SELECTABLE 0
#define EVENT(name) {name, 32, false}
#define EACH_EVENT_COUNTER(X) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#endif

static const etd_counter counters[] = {
    {"cycles", 32, false},
    {"instret", 32, false},
#if defined(ETD_COUNTERS_CV32E40P)
    /* Bits 2 to 10 of mhpmevent, in order (CV32E40P user manual, "Performance Counters"). */
    EVENT("load_stall"),
    EVENT("jump_stall"),
    EVENT("fetch_stall"),
    EVENT("loads"),
    EVENT("stores"),
    EVENT("jumps"),
    EVENT("branches"),
    EVENT("branches_taken"),
    EVENT("compressed"),
#elif defined(ETD_COUNTERS_IBEX)
    /* mhpmcounter3 to 12, in order (Ibex reference guide, "Performance Counters"). */
    EVENT("load_stall"),
    EVENT("fetch_stall"),
    EVENT("loads"),
    EVENT("stores"),
    EVENT("jumps"),
    EVENT("branches"),
    EVENT("branches_taken"),
    EVENT("compressed"),
    EVENT("mul_stall"),
    EVENT("div_stall"),
#endif
};

/* The CSRs to read, in the order of the selection. */
static uint8_t selected[ETD_LOG_COUNTERS];
static uint32_t selected_count;

static uint32_t read_csr(uint32_t csr) {
    uint32_t value = 0;
    switch (csr) {
    case CYCLES:
        READ_CSR("mcycle", value);
        break;
    case INSTRET:
        READ_CSR("minstret", value);
        break;
#ifdef EACH_EVENT_COUNTER
        EACH_EVENT_COUNTER(READ_CASE)
#endif
    default:
        break;
    }
    return value;
}

static void read(void *context, uint32_t *values) {
    (void)context;
    uint32_t count = selected_count;
    for (uint32_t i = 0; i < count; i++) {
        values[i] = read_csr(selected[i]);
    }
}

#ifdef ETD_COUNTERS_CV32E40P
#define FIRST_EVENT_BIT 2u /* of the counter at FIRST_EVENT in the list */

/* Lets mhpmcounter `number` count the events in `mask`. */
static void select_event(uint32_t number, uint32_t mask) {
    switch (number) {
        EACH_EVENT_COUNTER(SELECT_CASE)
    default:
        break;
    }
}
#endif

static void select(void *context, const uint8_t *indexes, uint32_t count) {
    (void)context;
#ifdef ETD_COUNTERS_CV32E40P
    uint32_t place = 0;
#endif
    for (uint32_t i = 0; i < count; i++) {
        selected[i] = indexes[i];
#ifdef ETD_COUNTERS_CV32E40P
        if (indexes[i] >= FIRST_EVENT) {
            select_event(FIRST_NUMBER + place, 1u << (indexes[i] - FIRST_EVENT + FIRST_EVENT_BIT));
            selected[i] = (uint8_t)(FIRST_EVENT + place);
            place++;
        }
#endif
    }
    selected_count = count;
}

static etd_counting counting;
static etd_counter_source source = {
    .counters = counters,
#ifdef SELECTABLE
    .selectable_count = SELECTABLE,
#endif
    .select = select,
    .read = read,
    .start = etd_start_counting,
    .counting = &counting,
};

#ifdef EACH_EVENT_COUNTER
/* Returns whether the event counters count: the same image also runs on machines that have none of these
 * events, such as QEMU. All cores that count events count loads. */
static bool counts_loads(void) {
    uint8_t loads = 0;
    for (uint8_t i = FIRST_EVENT; i < sizeof counters / sizeof counters[0]; i++) {
        loads = strcmp(counters[i].name, "loads") == 0 ? i : loads;
    }
    volatile uint32_t word = 0;
    uint32_t before, after;
    select(NULL, &loads, 1);
    read(NULL, &before);
    (void)word;
    (void)word;
    read(NULL, &after);
    return after - before >= 2;
}
#endif

const etd_counter_source *port_counters(void) {
    source.counter_count = FIRST_EVENT;
#ifdef EACH_EVENT_COUNTER
    if (counts_loads()) {
        source.counter_count = sizeof counters / sizeof counters[0];
    } else {
        source.selectable_count = 0;
    }
#endif
    return &source;
}
