// SPDX-License-Identifier: Apache-2.0
/* What a board must provide. A port fills in an etd_port and an etd_target and calls etd_app_main. */
#ifndef ETD_PORT_H
#define ETD_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "etd_counters.h"
#include "etd_postmortem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Marks a function that does not return. */
#if defined(__GNUC__)
#define ETD_NORETURN __attribute__((noreturn))
#else
#define ETD_NORETURN
#endif

/* Further tracers of a run, such as those of other cores. The server sends their logs behind its own, as one
 * trace, and reads them only while nobody logs: between `end` and the next `begin`. */
typedef struct {
    const etd_tracer *const *tracers; /* each has a number of its own, not 0 */
    uint32_t count;
    uint32_t capacity; /* bytes of all their logs, ETD_LOG_HEADER_SIZE each included */
    void *context;     /* passed to both functions; may be NULL */
    /* Called when a run begins, after the clock was set to zero: initializes the tracers, logs the clocks of
     * all (etd_clock.h) and lets the others log. `tracer` is the server's own, of clock domain 0. */
    void (*begin)(void *context, etd_tracer *tracer);
    /* Called when the run has ended: returns when nobody logs any more. */
    void (*end)(void *context, etd_tracer *tracer);
} etd_more_tracers;

/* Functions and memory of a board. Set optional members to NULL when the board does not have them.
 *
 * The server calls these functions from the task that polls it, never from an interrupt. */
typedef struct {
    void *context; /* passed to every function; may be NULL */
    /* Copies up to `size` received bytes without waiting; returns the number of bytes. Bytes that arrive
     * while the server is sending must be buffered by a FIFO or an interrupt, at least 32 of them (one
     * request). */
    uint32_t (*read)(void *context, uint8_t *bytes, uint32_t size);
    /* Sends all bytes; waits for the line as needed. It may give up after a time of its own and drop the
     * rest: the host notices missing frames and asks again. */
    void (*write)(void *context, const uint8_t *bytes, uint32_t size);
    /* Called when there is nothing to do. May sleep until bytes arrive. */
    void (*idle)(void *context);
    /* Returns the 32-bit tick counter of clock domain 0, which counts up. etd_wide_counter.h widens a
     * narrower one; how narrow it may be is in docs/boards.md. */
    uint32_t (*ticks)(void *context);
    /* Sets that counter and its prescaler to zero. */
    void (*restart_clock)(void *context);
    /* Restarts the firmware; does not return. */
    void (*reboot)(void *context);
    /* Optional, for ports that use interrupts. The device executes between quiet(true) and quiet(false): the
     * port takes no interrupt, and write returns only when all bytes have left memory. The server also reads
     * between executions. A port starts in quiet mode. */
    void (*quiet)(void *context, bool on);
    /* Optional. Returns how often the UART lost received bytes because they were read too late. */
    uint32_t (*overruns)(void *context);
    /* Optional. Waits until the last byte written is on the line, then changes the line to one of the rates
     * in etd_target.bauds (bits per second). */
    void (*set_baud)(void *context, uint32_t baud);
    /* Optional. Returns the cause of the last reset as ETD_POSTMORTEM_REASON_* bits. */
    uint32_t (*reset_reason)(void *context);
    /* Optional. Called during a run after each instruction and after each execution, outside of operators'
     * times; feed a watchdog here. Its time adds to Method::execute. */
    void (*alive)(void *context);
    /* Optional. Returns the hardware counters that a run may select, or NULL if none of them counts. Called
     * once, at the start. */
    const etd_counter_source *(*counters)(void *context);
    /* Optional, for energy measurements. Sets a pin that the probe samples: high while a method executes.
     * Must be quick, a store to a register: its time adds to Method::execute, not to operators. */
    void (*marker)(void *context, bool high);
    /* Optional. Faults on purpose, as by an invalid instruction, when a run asks for it: so a host can prove
     * that a crash of this board is recorded and found after the reset. */
    void (*crash)(void *context);
    /* Optional: tracers beside the server's. */
    const etd_more_tracers *more_tracers;
    /* Optional: the limits of the stack, which grows down. */
    uint32_t *stack_bottom;
    uint32_t *stack_top;
} etd_port;

/* A clock domain other than domain 0, such as the counter of an accelerator. */
typedef struct {
    const char *name;
    uint32_t hz_numerator;
    uint32_t hz_denominator;
    uint8_t bits;
    bool down; /* counts towards zero */
} etd_clock;

/* Description of the target for HELLO. The clock_* fields describe domain 0, which counts up. All strings and
 * arrays must stay valid. */
typedef struct {
    const char *board;
    const char *cpu;
    const char *clock_name;
    uint32_t clock_hz_numerator;
    uint32_t clock_hz_denominator;
    uint8_t clock_bits;
    uint8_t more_clock_count;
    uint8_t baud_count;
    const uint32_t *bauds; /* supported line rates in bits per second, the rate after reset first; NULL if
                              there is only one */
    const etd_clock *more_clocks; /* domains 1, 2, ...; NULL if there are none */
} etd_target;

/* Records a fault so that it survives the reset. Call it from a fault handler; it may run on any stack. */
void etd_app_fault(const etd_fault *fault);

/* Runs the server forever. `port` and `target` must stay valid. */
ETD_NORETURN void etd_app_main(const etd_port *port, const etd_target *target);

#ifdef __cplusplus
}
#endif

#endif
