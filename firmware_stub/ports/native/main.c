/* The firmware as a process. Prints "link: <path>" when the path can be opened. */
#define _GNU_SOURCE

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "crash.h"
#include "et_npu.h"
#include "et_port.h"
#include "pty.h"

#ifndef ET_BOARD_NAME
#define ET_BOARD_NAME "native"
#endif

static sigjmp_buf boot;
static uint32_t clock_zero;

static uint32_t nanoseconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

static uint32_t ticks(void) {
    return nanoseconds() - clock_zero;
}

static void restart_clock(void) {
    clock_zero = nanoseconds();
}

/* A new process would bring a new pseudo-terminal; a board keeps its port. */
static void reboot(void) {
    siglongjmp(boot, 1);
}

static void idle(void) {
    crash_settled();
    pty_wait();
}

/* A pseudo-terminal has a rate, but does not keep to it. */
static void set_baud(uint32_t baud) {
    (void)baud;
}

int main(void) {
    static const et_port port = {
        .read = pty_read,
        .write = pty_write,
        .idle = idle,
        .ticks = ticks,
        .restart_clock = restart_clock,
        .reboot = reboot,
        .set_baud = set_baud,
    };
    static const et_clock npu_clock = ET_NPU_CLOCK_OF(1000000000u, 1u);
    static const uint32_t bauds[] = {115200, 921600, 3000000};
    static const et_target target = {
        .board = ET_BOARD_NAME,
        .cpu = "host",
        .clock_name = "CLOCK_MONOTONIC",
        .clock_hz_numerator = 1000000000,
        .clock_hz_denominator = 1,
        .clock_bits = 32,
        .baud_count = sizeof bauds / sizeof bauds[0],
        .bauds = bauds,
        .more_clock_count = ET_NPU_LINKED,
        .more_clocks = &npu_clock,
    };
    const char *path = pty_open();
    if (path == NULL) {
        perror("cannot open a pseudo-terminal");
        return EXIT_FAILURE;
    }
    (void)printf("link: %s\n", path);
    (void)fflush(stdout);
    crash_catch(reboot);
    (void)sigsetjmp(boot, 1);
    restart_clock();
    et_app_main(&port, &target);
}
