// SPDX-License-Identifier: Apache-2.0
/* Calls functions of the library on a painted stack and prints how many bytes of it each has used. */
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include "etd_etdump.h"
#include "etd_frame.h"
#include "etd_sha256.h"
#include "etd_tracer.h"

#define PAINT 0xA5
#define STACK 65536

static uint8_t stack[STACK];
static ucontext_t back, there;
static etd_tracer tracer;
static uint8_t memory[4096], payload[256], encoded[ETD_FRAME_ENCODED_SIZE(256)];
static uint32_t now;
static void (*volatile chosen)(void);

static uint32_t count(void *context) {
    return ++*(uint32_t *)context;
}

static bool swallow(void *context, const void *bytes, uint32_t size) {
    (void)context;
    (void)bytes;
    (void)size;
    return true;
}

static void nothing(void) {
}

static void end_profiling(void) {
    etd_event event = {.name = 0, .chain = 100000, .handle = 100000};
    etd_end_profiling(&tracer, event);
}

static void start_profiling(void) {
    (void)etd_start_profiling(&tracer, "a new name", 0, 1);
}

static void log_profiling_delegate(void) {
    etd_log_profiling_delegate(&tracer, "another name", -1, 0, 1, 2, "data", 4);
}

static void create_event_block(void) {
    etd_create_event_block(&tracer, "Execute");
}

static void log_read(void) {
    (void)etd_log_read(&tracer, 0, payload, sizeof payload);
}

static void etdump_write(void) {
    const etd_etdump_sink sink = {swallow, NULL};
    (void)etd_etdump_write(&tracer, true, &sink);
}

static void log_recycle(void) {
    etd_log_recycle(&tracer);
}

static void frame_encode(void) {
    (void)etd_frame_encode(payload, sizeof payload, encoded);
}

static void sha256_final(void) {
    uint8_t digest[ETD_LINK_DIGEST_SIZE];
    etd_sha256 sha;
    etd_sha256_init(&sha);
    etd_sha256_final(&sha, digest);
}

static void enter(void) {
    chosen();
}

static unsigned used(void (*function)(void)) {
    unsigned untouched = 0;
    memset(stack, PAINT, sizeof stack);
    chosen = function;
    (void)getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = sizeof stack;
    there.uc_link = &back;
    makecontext(&there, enter, 0);
    (void)swapcontext(&back, &there);
    while (stack[untouched] == PAINT) {
        untouched++;
    }
    return STACK - untouched;
}

int main(void) {
    static const struct {
        const char *name;
        void (*function)(void);
    } all[] = {
        {"etd_create_event_block", create_event_block},
        {"etd_start_profiling", start_profiling},
        {"etd_end_profiling", end_profiling},
        {"etd_log_profiling_delegate", log_profiling_delegate},
        {"etd_log_read", log_read},
        {"etd_etdump_write", etdump_write},
        {"etd_log_recycle", log_recycle},
        {"etd_frame_encode", frame_encode},
        {"etd_sha256_final", sha256_final},
    };
    unsigned without = used(nothing);
    etd_tracer_init(&tracer, memory, sizeof memory, count, &now);
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
        (void)printf("%s %u\n", all[i].name, used(all[i].function) - without);
    }
    return 0;
}
