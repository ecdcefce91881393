// SPDX-License-Identifier: Apache-2.0
/* The firmware as a process of the host. Prints "link: <path>" when the path can be opened. */
#define _GNU_SOURCE

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "crash.h"
#include "etd_npu.h"
#include "etd_port.h"
#include "pty.h"

#ifndef ETD_BOARD_NAME
#define ETD_BOARD_NAME "native"
#endif

/* Stack of the firmware; the process may have more, 8 MiB by default. */
#define STACK_BYTES (1024u * 1024u)
#define PAGE_BYTES 4096u

static sigjmp_buf boot;
static uint32_t clock_zero;

static uint32_t nanoseconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

static uint32_t read_line(void *context, uint8_t *bytes, uint32_t size) {
    (void)context;
    return pty_read(bytes, size);
}

static void write_line(void *context, const uint8_t *bytes, uint32_t size) {
    (void)context;
    pty_write(bytes, size);
}

static uint32_t ticks(void *context) {
    (void)context;
    return nanoseconds() - clock_zero;
}

static void restart_clock(void *context) {
    (void)context;
    clock_zero = nanoseconds();
}

/* Restarts within the process: a new process would open a new pseudo-terminal, but a board keeps its port. */
static void restart(void) {
    siglongjmp(boot, 1);
}

static void reboot(void *context) {
    (void)context;
    restart();
}

static void crash(void *context) {
    (void)context;
    __builtin_trap();
}

static void idle(void *context) {
    (void)context;
    crash_settled();
    pty_wait();
}

/* A pseudo-terminal has a rate but does not use it. */
static void set_baud(void *context, uint32_t baud) {
    (void)context;
    (void)baud;
}

/* Maps the whole stack. Older kernels reject accesses far below the stack pointer. */
__attribute__((noinline)) static void grow_stack(void) {
    uint8_t room[STACK_BYTES];
    volatile uint8_t *end = room + sizeof room;
    for (size_t page = 0; page < sizeof room; page += PAGE_BYTES) {
        *(end - 1 - page) = 0;
    }
}

/* Sets the limits of the stack, so that its use can be measured. Leaves them unset if the stack limit is too
 * small. */
static void measure_stack(etd_port *port, uint32_t *top) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur / 2 < STACK_BYTES) {
        return;
    }
    grow_stack();
    port->stack_top = top;
    port->stack_bottom = top - STACK_BYTES / sizeof *top;
}

int main(void) {
    static etd_port port = {
        .read = read_line,
        .write = write_line,
        .idle = idle,
        .ticks = ticks,
        .restart_clock = restart_clock,
        .reboot = reboot,
        .set_baud = set_baud,
        .crash = crash,
    };
    static const etd_clock npu_clock = ETD_NPU_CLOCK_OF(1000000000u, 1u);
    static const uint32_t bauds[] = {115200, 921600, 3000000};
    static const etd_target target = {
        .board = ETD_BOARD_NAME,
        .cpu = "host",
        .clock_name = "CLOCK_MONOTONIC",
        .clock_hz_numerator = 1000000000,
        .clock_hz_denominator = 1,
        .clock_bits = 32,
        .baud_count = sizeof bauds / sizeof bauds[0],
        .bauds = bauds,
        .more_clock_count = ETD_NPU_LINKED,
        .more_clocks = &npu_clock,
    };
    const char *path = pty_open();
    if (path == NULL) {
        perror("cannot open a pseudo-terminal");
        return EXIT_FAILURE;
    }
    (void)printf("link: %s\n", path);
    (void)fflush(stdout);
    crash_catch(restart);
    /* The stack of a process starts at a random address. Starting at a page makes alignment gaps the same
     * each time. */
    const size_t past_page = (uintptr_t)__builtin_frame_address(0) % PAGE_BYTES;
    measure_stack(&port, __builtin_alloca(past_page));
    (void)sigsetjmp(boot, 1);
    restart_clock(NULL);
    etd_app_main(&port, &target);
}
