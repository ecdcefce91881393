// SPDX-License-Identifier: Apache-2.0
/* Hardware counters of Cortex-M. ETD_COUNTERS_DWT: the data watchpoint and trace unit of M3, M4, M7 and M33
 * (Armv7-M and Armv8-M reference manuals, "DWT"). ETD_COUNTERS_PMU: the performance monitors of Armv8.1-M. A
 * counter that does not count, as in simulators, is not offered. */
#include <stddef.h>
#include <string.h>

#include "bare_metal.h"

#define DEMCR REGISTER(0xE000EDFCu)
#define DEMCR_TRCENA (1u << 24)

static etd_counting counting;

/* The counters to read, in the order of the selection. */
static uint8_t selected[ETD_LOG_COUNTERS];
static uint32_t selected_count;

#ifdef ETD_COUNTERS_DWT
#define DWT_CTRL REGISTER(0xE0001000u)
#define DWT_COUNTER(place) REGISTER(0xE0001004u + 4u * (place)) /* CYCCNT, CPICNT, ... */
#define DWT_LAR REGISTER(0xE0001FB0u)
#define DWT_LAR_KEY 0xC5ACCE55u
#define CTRL_CYCCNTENA 1u
#define CTRL_PROFILING (31u << 17)
#define CTRL_NOPRFCNT (1u << 24)
#define CTRL_NOCYCCNT (1u << 25)

/* At the place of their register. */
static const etd_counter counters[] = {
    {"cycles", 32, false}, {"cpi", 8, false}, {"exception", 8, false},
    {"sleep", 8, false},   {"lsu", 8, false}, {"fold", 8, false},
};

static uint32_t read_counter(uint32_t place) {
    return DWT_COUNTER(place);
}

static void select_counters(const uint8_t *indexes, uint32_t count) {
    memcpy(selected, indexes, count);
}

/* Returns how many counters count: none, the first one, or all. */
static uint8_t start_counters(void) {
    DEMCR |= DEMCR_TRCENA;
#ifdef ETD_DWT_LOCKED
    DWT_LAR = DWT_LAR_KEY;
#endif
    if (DWT_CTRL == 0 || (DWT_CTRL & CTRL_NOCYCCNT) != 0) {
        return 0;
    }
    DWT_CTRL |= CTRL_CYCCNTENA;
    uint32_t before = DWT_COUNTER(0);
    if (DWT_COUNTER(0) == before) {
        return 0;
    }
    if ((DWT_CTRL & CTRL_NOPRFCNT) != 0) {
        return 1;
    }
    DWT_CTRL |= CTRL_PROFILING;
    return sizeof counters / sizeof counters[0];
}

#define SELECTABLE 0
#else
#define PMU_COUNTER(place) REGISTER(0xE0003000u + 4u * (place)) /* EVCNTR0, ...; CCNTR is number 31 */
#define PMU_CCNTR PMU_COUNTER(CYCLES_PLACE)
#define PMU_EVTYPER(place) REGISTER(0xE0003400u + 4u * (place))
#define PMU_CNTENSET REGISTER(0xE0003C00u)
#define PMU_TYPE REGISTER(0xE0003E00u)
#define PMU_TYPE_COUNT 0xFFu
#define PMU_CTRL REGISTER(0xE0003E04u)
#define PMU_CTRL_ON 1u
#define CYCLES_ON (1u << 31)
#define SELECTABLE 8 /* of Cortex-M55 and M85 */

static const etd_counter counters[] = {
    {"cycles", 32, false},        {"instret", 16, true},     {"loads", 16, true},
    {"stores", 16, true},         {"branches", 16, true},    {"branches_mispredicted", 16, true},
    {"exceptions", 16, true},     {"fetch_stall", 16, true}, {"backend_stall", 16, true},
    {"vector_instret", 16, true},
};
/* Events of the counters (Armv8.1-M reference manual, "PMU events"). */
static const uint16_t events[] = {0x11, 0x08, 0x06, 0x07, 0x21, 0x10, 0x09, 0x23, 0x24, 0x200};
#define CYCLES_PLACE 31u

static uint32_t read_counter(uint32_t place) {
    return PMU_COUNTER(place);
}

static void select_counters(const uint8_t *indexes, uint32_t count) {
    uint32_t place = 0;
    for (uint32_t i = 0; i < count; i++) {
        selected[i] = CYCLES_PLACE;
        if (indexes[i] > 0) {
            PMU_EVTYPER(place) = events[indexes[i]];
            PMU_CNTENSET = 1u << place;
            selected[i] = (uint8_t)place;
            place++;
        }
    }
}

static uint8_t start_counters(void) {
    DEMCR |= DEMCR_TRCENA;
    PMU_CTRL = PMU_CTRL_ON;
    PMU_CNTENSET = CYCLES_ON;
    uint32_t before = PMU_CCNTR;
    if (PMU_CCNTR == before) {
        return 0;
    }
    return (PMU_TYPE & PMU_TYPE_COUNT) >= SELECTABLE ? sizeof counters / sizeof counters[0] : 1;
}
#endif

static void read(void *context, uint32_t *values) {
    (void)context;
    uint32_t count = selected_count;
    for (uint32_t i = 0; i < count; i++) {
        values[i] = read_counter(selected[i]);
    }
}

static void select(void *context, const uint8_t *indexes, uint32_t count) {
    (void)context;
    select_counters(indexes, count);
    selected_count = count;
}

static etd_counter_source source = {
    .counters = counters,
    .selectable_count = SELECTABLE,
    .select = select,
    .read = read,
    .start = etd_start_counting,
    .counting = &counting,
};

const etd_counter_source *port_counters(void) {
    source.counter_count = start_counters();
    return source.counter_count > 0 ? &source : NULL;
}
