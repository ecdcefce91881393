// SPDX-License-Identifier: Apache-2.0
/* Hardware counters of RISC-V cores. mcycle and minstret are on all of them. The others are the core's, and
 * port.cmake says whose: ETD_COUNTERS_CV32E40P counts events that are selected, ETD_COUNTERS_IBEX has a
 * counter for each event. */
#include <stddef.h>
#include <string.h>

#include "machine_riscv.h"

#define READ_CSR(name, value) __asm volatile("csrr %0, " name : "=r"(value))

/* The CSR of a counter is its place in this list. */
enum {
    CYCLES,
    INSTRET,
    FIRST_EVENT, /* mhpmcounter3 */
};

#if defined(ETD_COUNTERS_CV32E40P)
#define SELECTABLE 8 /* of the core's parameter NUM_MHPMCOUNTERS */
#define EVENT_COUNTERS SELECTABLE
#define EVENT(name) {name, 32, true}
#elif defined(ETD_COUNTERS_IBEX)
#define SELECTABLE 0
#define EVENT_COUNTERS 10
#define EVENT(name) {name, 32, false}
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
#ifdef EVENT_COUNTERS
    case FIRST_EVENT:
        READ_CSR("mhpmcounter3", value);
        break;
    case FIRST_EVENT + 1:
        READ_CSR("mhpmcounter4", value);
        break;
    case FIRST_EVENT + 2:
        READ_CSR("mhpmcounter5", value);
        break;
    case FIRST_EVENT + 3:
        READ_CSR("mhpmcounter6", value);
        break;
    case FIRST_EVENT + 4:
        READ_CSR("mhpmcounter7", value);
        break;
    case FIRST_EVENT + 5:
        READ_CSR("mhpmcounter8", value);
        break;
    case FIRST_EVENT + 6:
        READ_CSR("mhpmcounter9", value);
        break;
    case FIRST_EVENT + 7:
        READ_CSR("mhpmcounter10", value);
        break;
#endif
#ifdef ETD_COUNTERS_IBEX
    case FIRST_EVENT + 8:
        READ_CSR("mhpmcounter11", value);
        break;
    case FIRST_EVENT + 9:
        READ_CSR("mhpmcounter12", value);
        break;
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

static void select_event(uint32_t place, uint32_t mask) {
    switch (place) {
    case 0:
        __asm volatile("csrw mhpmevent3, %0" ::"r"(mask));
        break;
    case 1:
        __asm volatile("csrw mhpmevent4, %0" ::"r"(mask));
        break;
    case 2:
        __asm volatile("csrw mhpmevent5, %0" ::"r"(mask));
        break;
    case 3:
        __asm volatile("csrw mhpmevent6, %0" ::"r"(mask));
        break;
    case 4:
        __asm volatile("csrw mhpmevent7, %0" ::"r"(mask));
        break;
    case 5:
        __asm volatile("csrw mhpmevent8, %0" ::"r"(mask));
        break;
    case 6:
        __asm volatile("csrw mhpmevent9, %0" ::"r"(mask));
        break;
    default:
        __asm volatile("csrw mhpmevent10, %0" ::"r"(mask));
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
            select_event(place, 1u << (indexes[i] - FIRST_EVENT + FIRST_EVENT_BIT));
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

#ifdef EVENT_COUNTERS
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
#ifdef EVENT_COUNTERS
    if (counts_loads()) {
        source.counter_count = sizeof counters / sizeof counters[0];
    } else {
        source.selectable_count = 0;
    }
#endif
    return &source;
}
