// SPDX-License-Identifier: Apache-2.0
/* Four tasks and an interrupt, each with a tracer of its own, all on one counter, and one link. Each task
 * sends its log in frames to the standard output, one frame at a time. The interrupt is a signal to the first
 * task, wherever it is; its log is sent when it can no longer occur. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "etd_clock.h"
#include "etd_frame.h"
#include "etd_tracer.h"

#define TASKS 4
#define EVENTS 500
#define INTERRUPTS 20
#define MTU 128u

/* Type of the frames: what follows is the next part of the log with this number. */
#define PART 0x70

typedef struct {
    etd_tracer tracer;
    uint8_t buffer[EVENTS * 16 + 256];
} traced;

static traced tasks[TASKS];
static traced interrupt;
static _Atomic int taken;
static pthread_mutex_t link_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t nanoseconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint32_t count(void *context) {
    (void)context;
    return (uint32_t)nanoseconds();
}

static void log_clock(traced *it) {
    uint64_t now = nanoseconds();
    (void)etd_log_clock(&it->tracer, 0, (uint32_t)now, now); /* all read the same counter */
}

static void init(traced *it, uint16_t number) {
    etd_tracer_init(&it->tracer, it->buffer, sizeof it->buffer, count, NULL);
    etd_set_tracer_number(&it->tracer, number);
    log_clock(it);
    etd_create_event_block(&it->tracer, "Execute");
}

static void trace(traced *it, const char *name) {
    etd_event event = etd_start_profiling(&it->tracer, name, ETD_UNSET_CHAIN, ETD_UNSET_HANDLE);
    etd_end_profiling(&it->tracer, event);
}

/* A link is used by one task at a time: encoding and sending of a frame are one step. */
static void send_part(uint16_t number, const uint8_t *bytes, uint32_t size) {
    static uint8_t payload[MTU];
    static uint8_t encoded[ETD_FRAME_ENCODED_SIZE(MTU)];
    (void)pthread_mutex_lock(&link_lock);
    payload[0] = 0;
    payload[1] = PART;
    payload[2] = (uint8_t)number;
    payload[3] = 0;
    memcpy(payload + 4, bytes, size);
    size = etd_frame_encode(payload, 4 + size + 4, encoded);
    (void)fwrite(encoded, 1, size, stdout);
    (void)fputs("console text\n", stdout);
    (void)pthread_mutex_unlock(&link_lock);
}

static void send_log(const traced *it, uint16_t number) {
    uint8_t part[MTU - 8];
    uint32_t offset = 0;
    uint32_t size;
    while ((size = etd_log_read(&it->tracer, offset, part, sizeof part)) > 0) {
        send_part(number, part, size);
        offset += size;
    }
}

static void on_signal(int number) {
    int before = errno;
    (void)number;
    trace(&interrupt, "interrupt");
    taken++;
    errno = before;
}

static void *run(void *argument) {
#ifdef SHARE_ONE_TRACER /* what is forbidden, to see that it is noticed */
    argument = &tasks[0];
#endif
    traced *it = argument;
    uint16_t number = (uint16_t)(it - tasks);
    init(it, number);
    for (int i = 0; i < EVENTS; i++) {
        trace(it, number % 2 == 0 ? "even" : "odd");
    }
    while (number == 0 && taken < INTERRUPTS) {
        (void)usleep(100);
    }
    log_clock(it);
    send_log(it, number);
    return NULL;
}

int main(void) {
    pthread_t threads[TASKS];
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    (void)sigaction(SIGUSR1, &action, NULL);
    init(&interrupt, TASKS);
    for (int i = 0; i < TASKS; i++) {
        (void)pthread_create(&threads[i], NULL, run, &tasks[i]);
    }
    for (int sent = 1; sent <= INTERRUPTS; sent++) {
        (void)pthread_kill(threads[0], SIGUSR1);
        while (taken < sent) {
            (void)usleep(50);
        }
    }
    for (int i = 0; i < TASKS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    log_clock(&interrupt);
    send_log(&interrupt, TASKS);
    return 0;
}
