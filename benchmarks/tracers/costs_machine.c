// SPDX-License-Identifier: Apache-2.0
/* Start-up, counter and output of the machines of benchmarks/device_costs.py: QEMU's Cortex-M boards and
 * rp2040js (SysTick, semihosting), QEMU's RISC-V `virt` and the testbench of RTL (mcycle, UART). */
#include "costs.h"

#include <stddef.h>

extern uint32_t bss_start[], bss_end[];

uint32_t cheap_clock(void *context) {
    (void)context;
    static uint32_t now;
    return now += 10u;
}

#ifdef __riscv
#define UART_DATA (*(volatile uint8_t *)(uintptr_t)0x10000000u)
#define UART_STATE (*(volatile uint8_t *)(uintptr_t)0x10000005u)
#define UART_STATE_ROOM (1u << 5)

/* Not in -march, for which there would be no C library. */
#define ZICSR(instruction) ".option push\n.option arch, +zicsr\n" instruction "\n.option pop"

uint32_t count_now(void) {
    uint32_t cycles;
    __asm volatile(ZICSR("csrr %0, mcycle") : "=r"(cycles));
    return cycles;
}

static void start_counter(void) {
    __asm volatile(ZICSR("csrw mcountinhibit, zero"));
}

static void print(const char *text) {
    for (; *text != '\0'; text++) {
        while ((UART_STATE & UART_STATE_ROOM) == 0) {
        }
        UART_DATA = (uint8_t)*text;
    }
}

static void end(void) {
    for (;;) {
        __asm volatile("wfi");
    }
}
#else
#define SYST(at) (*(volatile uint32_t *)(uintptr_t)(0xE000E010u + (at)))
#define SYST_MASK 0xFFFFFFu
#define SYS_WRITE0 4u
#define SYS_EXIT 0x18u
#define STOPPED_APPLICATION_EXIT 0x20026u

/* Units of the counter per tick of SysTick. */
#ifndef COUNTS_PER_TICK
#define COUNTS_PER_TICK 1u
#endif

uint32_t count_now(void) {
    return (SYST_MASK - SYST(8u)) * COUNTS_PER_TICK;
}

static void start_counter(void) {
    SYST(4u) = SYST_MASK;
    SYST(8u) = 0;
    SYST(0u) = 5u;
    while (SYST(8u) == 0) {
    }
}

static void call_host(uint32_t operation, uintptr_t argument) {
    register uint32_t r0 __asm("r0") = operation;
    register uintptr_t r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static void print(const char *text) {
    call_host(SYS_WRITE0, (uintptr_t)text);
}

static void end(void) {
    call_host(SYS_EXIT, STOPPED_APPLICATION_EXIT);
}
#endif

void print_count(const char *scenario, uint32_t count) {
    char text[12];
    char *at = text + sizeof text;
    *--at = '\0';
    *--at = '\n';
    do {
        *--at = (char)('0' + count % 10u);
        count /= 10u;
    } while (count > 0);
    print(scenario);
    print(" ");
    print(at);
}

__attribute__((used, noreturn)) static void run(void) {
    for (uint32_t *at = bss_start; at < bss_end; at++) {
        *(volatile uint32_t *)at = 0;
    }
    start_counter();
    measure_costs();
    print("end\n");
    end();
    for (;;) {
    }
}

#ifdef __riscv
__attribute__((naked, used, section(".vectors"))) void _start(void) {
    __asm volatile(".option push\n.option norelax\nla sp, stack_top\n.option pop\nj run");
}
#else
extern uint32_t stack_top[];

__attribute__((used)) static void fault(void) {
    print("fault\n");
    end();
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[] = {
    (uintptr_t)stack_top, (uintptr_t)run,   (uintptr_t)fault, (uintptr_t)fault,
    (uintptr_t)fault,     (uintptr_t)fault, (uintptr_t)fault, (uintptr_t)fault,
};
#endif
