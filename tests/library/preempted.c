// SPDX-License-Identifier: Apache-2.0
/* A Cortex-M3 that executes an operator four times: without interrupts, then with a SysTick interrupt that
 * preempts it and, in every fourth tick, lets PendSV switch to another task and back. The lines for FreeRTOS
 * of docs/library/contexts.md are in freertos_hooks.h; what they need of the kernel stands in here. */
#include <stdint.h>
#include <stdio.h>

#include "etd_clock.h"
#include "etd_contexts.h"
#include "etd_marks.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define TIMER_CTRL REGISTER(0x40000000u) /* CMSDK timer 0, counts down */
#define TIMER_VALUE REGISTER(0x40000004u)
#define TIMER_RELOAD REGISTER(0x40000008u)
#define SYSTICK_CTRL REGISTER(0xE000E010u)
#define SYSTICK_LOAD REGISTER(0xE000E014u)
#define SYSTICK_VALUE REGISTER(0xE000E018u)
#define ICSR REGISTER(0xE000ED04u)
#define SHPR3 REGISTER(0xE000ED20u)
#define PEND_SV (1u << 28)
#define SYSTICK 15u
#define ROUNDS 100000u

typedef struct {
    const char pcTaskName[16];
} TCB_t;
static const TCB_t inference = {"inference"};
static const TCB_t logger = {"logger"};
static const TCB_t *volatile pxCurrentTCB = &inference;

#include "freertos_hooks.h"

static uint8_t operator_memory[8192];
static etd_tracer operators;
static volatile uint32_t ticks_taken;
static uint32_t interrupts;

static uint32_t read_clock(void *context) {
    (void)context;
    return UINT32_MAX - TIMER_VALUE;
}

uint64_t read_clock64(void);
void log_clocks(etd_tracer *tracer);
void start_switches(etd_tracer *tracer);
#include "log_switches.h" /* of the same page */

static __attribute__((noinline)) void work(uint32_t rounds) {
    for (uint32_t round = 0; round < rounds; round++) {
        __asm__ volatile("nop");
    }
}

static void switch_to(const TCB_t *task) { /* as vTaskSwitchContext, which runs with interrupts masked */
    __asm__ volatile("cpsid i" ::: "memory");
    traceTASK_SWITCHED_OUT();
    pxCurrentTCB = task;
    traceTASK_SWITCHED_IN();
    __asm__ volatile("cpsie i" ::: "memory");
}

static void log_systick(bool begins) {
    __asm__ volatile("cpsid i" ::: "memory");
    etd_log_interrupt(&switches, SYSTICK, begins);
    __asm__ volatile("cpsie i" ::: "memory");
}

static void systick_handler(void) {
    uint32_t start = read_clock(NULL);
    log_systick(true);
    work(3000);
    if (++interrupts % 4u == 0) {
        ICSR = PEND_SV;
    }
    log_systick(false);
    ticks_taken += pxCurrentTCB == &inference ? read_clock(NULL) - start : 0u;
}

static void pendsv_handler(void) {
    uint32_t start = read_clock(NULL);
    switch_to(&logger);
    work(8000);
    switch_to(&inference);
    ticks_taken += read_clock(NULL) - start;
}

static void execute(void) {
    etd_create_event_block(&operators, "Execute");
    etd_event method = ETD_SCOPE(&operators, "Method::execute");
    etd_log_mark(&operators, "frame");
    etd_event kernel = etd_start_profiling_fixed(&operators, "native_call_work.out", 0, 1);
    uint32_t taken = ticks_taken;
    uint32_t start = read_clock(NULL);
    work(ROUNDS);
    uint32_t wall = read_clock(NULL) - start;
    taken = ticks_taken - taken;
    etd_end_profiling(&operators, kernel);
    etd_log_sample(&operators, "interrupts", (int32_t)interrupts);
    etd_end_profiling(&operators, method);
    printf("%u %u\n", (unsigned)wall, (unsigned)taken);
}

static void write_log(FILE *file, const etd_tracer *tracer) {
    static uint8_t part[256];
    uint32_t offset = 0;
    for (uint32_t read; (read = etd_log_read(tracer, offset, part, sizeof part)) > 0; offset += read) {
        (void)fwrite(part, 1, read, file);
    }
}

int main(int count, char **arguments) {
    TIMER_RELOAD = UINT32_MAX;
    TIMER_VALUE = UINT32_MAX;
    TIMER_CTRL = 1;
    etd_tracer_init(&operators, operator_memory, sizeof operator_memory, read_clock, NULL);
    start_switches(&operators);
    execute();
    SHPR3 = 0xFFu << 16;  /* PendSV has the lowest priority */
    SYSTICK_LOAD = 24999; /* 1 ms */
    SYSTICK_VALUE = 0;
    SYSTICK_CTRL = 7; /* the core's clock, with its interrupt */
    for (int i = 0; i < 3; i++) {
        execute();
    }
    SYSTICK_CTRL = 0;
    log_clocks(&operators);
    FILE *file = count > 1 ? fopen(arguments[1], "wb") : NULL;
    if (file == NULL) {
        return 1;
    }
    write_log(file, &operators);
    write_log(file, &switches);
    return fclose(file);
}

extern uint32_t __stack[];
void _start(void);

static void stop(void) {
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))(uintptr_t)__stack, _start, stop, stop, [14] = pendsv_handler, [15] = systick_handler};
