// SPDX-License-Identifier: Apache-2.0
/* Two harts of QEMU's RISC-V "virt" machine. The first one serves the link and executes the model, and its
 * tracer reads its cycle counter. The second one filters samples while a model runs, and its tracer reads the
 * machine's timer, which has another rate and another zero. */
#include <stddef.h>

#include "etd_clock.h"
#include "machine_riscv.h"

/* The core-local interruptor: an interrupt for each hart, an alarm for each, and the timer. */
#define WAKE(hart) REGISTER(0x02000000u + 4u * (hart))
#define ALARM(hart, word) REGISTER(0x02004000u + 8u * (hart) + 4u * (word))
#define TIMER(word) REGISTER(0x0200BFF8u + 4u * (word))
#define TIMER_HZ 10000000u
#define MIE_WAKE (1u << 3)
#define MIE_ALARM (1u << 7)

#define PERIOD 200u /* ticks of the timer from one block of samples to the next: 20 us */
#define SAMPLES 64u
#define LOG_SIZE 16384u

/* The two harts tell each other what to do and what is done. Loaded with the image, so that the second hart
 * can read it before the first one has cleared the other variables. */
typedef enum { PARKED, WORKING } state;
static volatile state wanted __attribute__((section(".data"))) = PARKED;
static volatile state reached __attribute__((section(".data"))) = PARKED;

static uint32_t stack[1024] __attribute__((aligned(16), used));
static uint8_t log_memory[LOG_SIZE];
static etd_tracer tracer;
static int32_t samples[SAMPLES];

void other_hart(void);

/* Both harts start here, at the first address of the memory. */
__attribute__((naked, used, section(".entry"))) void entry(void) {
    __asm volatile("csrr t0, mhartid\n"
                   "bnez t0, 1f\n"
                   "tail reset\n"
                   "1: la sp, stack + 4096\n"
                   "tail other_hart\n");
}

void port_start(void) {
    machine_start_uart();
}

static void wait_for(uint32_t interrupts) {
    __asm volatile("csrw mie, %0\n"
                   "wfi" ::"r"(interrupts)
                   : "memory");
}

/* Reads both words of a 64-bit counter. */
#define READ_WIDE(low, high, value)                                                                          \
    do {                                                                                                     \
        uint32_t upper, lower, again;                                                                        \
        do {                                                                                                 \
            upper = (high);                                                                                  \
            lower = (low);                                                                                   \
            again = (high);                                                                                  \
        } while (upper != again);                                                                            \
        (value) = (uint64_t)upper << 32 | lower;                                                             \
    } while (0)

static void sleep_until(uint32_t hart, uint64_t alarm) {
    ALARM(hart, 1) = UINT32_MAX; /* no alarm between the two words */
    ALARM(hart, 0) = (uint32_t)alarm;
    ALARM(hart, 1) = (uint32_t)(alarm >> 32);
    wait_for(MIE_ALARM);
}

static uint32_t csr_cycles_high(void) {
    uint32_t value;
    __asm volatile("csrr %0, mcycleh" : "=r"(value));
    return value;
}

static uint64_t cycles(void) {
    uint64_t value;
    READ_WIDE(port_ticks(), csr_cycles_high(), value);
    return value;
}

static uint64_t timer(void) {
    uint64_t value;
    READ_WIDE(TIMER(0), TIMER(1), value);
    return value;
}

/* The second hart. */

static uint32_t read_timer(void *context) {
    (void)context;
    return TIMER(0);
}

static void acquire(uint32_t seed) {
    for (uint32_t i = 0; i < SAMPLES; i++) {
        seed = seed * 1664525u + 1013904223u;
        samples[i] = (int32_t)(seed >> 16);
    }
}

static void filter(void) {
    for (uint32_t pass = 0; pass < 8; pass++) {
        for (uint32_t i = 1; i < SAMPLES; i++) {
            samples[i] = (samples[i - 1] + 3 * samples[i]) / 4;
        }
    }
}

static void work(void) {
    etd_create_event_block(&tracer, "Samples");
    while (wanted == WORKING) {
        if (!etd_log_half_full(&tracer)) {
            etd_event event = ETD_SCOPE(&tracer, "acquire");
            acquire(read_timer(NULL));
            etd_end_profiling(&tracer, event);
            event = ETD_SCOPE(&tracer, "filter");
            filter();
            etd_end_profiling(&tracer, event);
        }
        sleep_until(1, timer() + PERIOD);
    }
}

static void reach(state done) {
    __asm volatile("fence" ::: "memory");
    reached = done;
    WAKE(0) = 1;
}

void other_hart(void) {
    for (;;) {
        while (wanted == PARKED) {
            wait_for(MIE_WAKE);
            WAKE(1) = 0;
        }
        reach(WORKING);
        work();
        reach(PARKED);
    }
}

/* The first hart. */

static uint32_t mask_interrupts(void) {
    uint32_t enabled;
    core_mask_interrupts(true);
    __asm volatile("csrr %0, mie" : "=r"(enabled));
    return enabled;
}

static void unmask_interrupts(uint32_t enabled) {
    __asm volatile("csrw mie, %0" ::"r"(enabled));
    core_mask_interrupts(false);
}

static void ask_for(state next) {
    uint32_t enabled = mask_interrupts();
    __asm volatile("fence" ::: "memory");
    wanted = next;
    WAKE(1) = 1;
    while (reached != next) {
        wait_for(MIE_WAKE);
        WAKE(0) = 0;
    }
    unmask_interrupts(enabled);
}

/* QEMU emulates the harts in turns if it counts instructions, and may not change between two that never
 * sleep. Called between instructions of the model. Harts of a chip need no such thing. */
void port_alive(void *context) {
    (void)context;
    uint32_t enabled = mask_interrupts();
    sleep_until(0, timer() + 1u);
    unmask_interrupts(enabled);
}

/* A pair of readings for each tracer: this hart reads both counters. */
static void log_clocks(etd_tracer *own) {
    uint64_t before = cycles();
    uint64_t ticks = timer();
    uint64_t after = cycles();
    (void)etd_log_clock(own, 0, (uint32_t)before, before);
    (void)etd_log_clock(&tracer, TIMER_HZ, (uint32_t)ticks, before + (after - before) / 2u);
}

static void begin(void *context, etd_tracer *own) {
    (void)context;
    etd_tracer_init(&tracer, log_memory, sizeof log_memory, read_timer, NULL);
    etd_set_tracer_number(&tracer, 1);
    log_clocks(own);
    ask_for(WORKING);
}

static void end(void *context, etd_tracer *own) {
    (void)context;
    ask_for(PARKED);
    log_clocks(own);
}

static const etd_tracer *const tracers[] = {&tracer};

const etd_more_tracers port_more_tracers = {
    .tracers = tracers,
    .count = 1,
    .capacity = LOG_SIZE + ETD_LOG_HEADER_SIZE,
    .begin = begin,
    .end = end,
};
