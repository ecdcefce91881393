// SPDX-License-Identifier: Apache-2.0
/* Prints a log, its frames, its digest and its ETDump file as lines of hexadecimal digits, on any CPU. */
#include <stddef.h>

#include "etd_etdump.h"
#include "etd_frame.h"
#include "etd_sha256.h"
#include "etd_tracer.h"

#ifdef __AVR__
#include <avr/interrupt.h>
#include <avr/sleep.h>

static void open_console(void) {
    UBRR0 = 0;
    UCSR0B = 1 << TXEN0;
}

static void put(char c) {
    while ((UCSR0A & (1 << UDRE0)) == 0) {
    }
    UDR0 = (uint8_t)c;
}

/* A CPU that sleeps without interrupts ends the simulator. */
static void stop(void) {
    cli();
    sleep_enable();
    sleep_cpu();
}
#else
#include <stdio.h>

static void open_console(void) {
}

static void put(char c) {
    (void)putchar(c);
}

static void stop(void) {
}
#endif

#define LINE 30u

/* Aligned, so that the log begins at its first byte on every CPU. */
static _Alignas(4) uint8_t memory[2048];
static uint8_t piece[200], encoded[ETD_FRAME_ENCODED_SIZE(200)], digest[ETD_LINK_DIGEST_SIZE];
static etd_tracer tracer;
static uint32_t now;

/* Ticks that need more than 16 bits, and more than 31 at the end. */
static uint32_t read_clock(void *context) {
    (void)context;
    return now += 200000001u;
}

static void print(char kind, const uint8_t *bytes, uint32_t size) {
    for (uint32_t i = 0; i < size; i++) {
        if (i % LINE == 0) {
            put(kind);
            put(' ');
        }
        put("0123456789abcdef"[bytes[i] >> 4]);
        put("0123456789abcdef"[bytes[i] & 15]);
        if (i % LINE == LINE - 1 || i + 1 == size) {
            put('\n');
        }
    }
}

static bool sink(void *context, const void *bytes, uint32_t size) {
    (void)context;
    print('E', bytes, size);
    return true;
}

static void trace(void) {
    uint32_t arena;
    etd_tracer_init(&tracer, memory, sizeof memory, read_clock, NULL);
    etd_create_event_block(&tracer, "Execute");
    arena = etd_track_allocator(&tracer, "arena");
    etd_track_allocation(&tracer, arena, 100000, 70000);
    for (uint32_t i = 0; i < 3; i++) {
        etd_event step = etd_start_profiling(&tracer, "step", 0, 70000 + i);
        etd_delegate_event part = etd_start_profiling_delegate(&tracer, "part", -1);
        etd_end_profiling_delegate(&tracer, part, "meta", 4);
        etd_log_profiling_delegate(&tracer, NULL, 70000, 1, 5000000, 4000000000u, NULL, 0);
        etd_end_profiling(&tracer, step);
    }
    etd_end_profiling(&tracer, etd_start_profiling(&tracer, "wide", 100000, 200000));
}

int main(void) {
    const etd_etdump_sink etdump = {sink, NULL};
    etd_sha256 sha;
    open_console();
    trace();
    for (uint32_t at = 0; at < etd_log_size(&tracer);) {
        uint32_t size = etd_log_read(&tracer, at, piece, sizeof piece);
        print('L', piece, size);
        print('F', encoded, etd_frame_encode(piece, size, encoded));
        at += size;
    }
    etd_sha256_init(&sha);
    etd_sha256_update(&sha, memory, sizeof memory);
    etd_sha256_final(&sha, digest);
    print('D', digest, sizeof digest);
    (void)etd_etdump_write(&tracer, true, &etdump);
    stop();
    return 0;
}
