// SPDX-License-Identifier: Apache-2.0
/* What a board provides. A port fills this in and calls etd_app_main, which does not return. */
#ifndef ETD_PORT_H
#define ETD_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "etd_postmortem.h"

typedef struct {
    /* Takes up to `size` received bytes without waiting; returns how many. What arrives while the server is
     * sending must be kept, at least the 32 bytes of a request: a FIFO or a ring filled by an interrupt. */
    uint32_t (*read)(uint8_t *bytes, uint32_t size);
    /* Sends all the bytes, waiting for the line as needed. */
    void (*write)(const uint8_t *bytes, uint32_t size);
    /* Called when there is nothing to do; may sleep until bytes arrive. */
    void (*idle)(void);
    /* The 32-bit tick counter of clock domain 0, counting up. */
    uint32_t (*ticks)(void);
    /* Sets that counter to zero, its prescaler included. */
    void (*restart_clock)(void);
    /* Restarts the firmware; does not return. */
    void (*reboot)(void);
    /* Optional (NULL), for a port that works by interrupts. From quiet(true) to quiet(false) the device
     * executes: no interrupt is taken, and what was written has left memory. A port begins quiet. */
    void (*quiet)(bool on);
    /* Optional (NULL): how often received bytes were lost because nobody took them in time. */
    uint32_t (*overruns)(void);
    /* Optional (NULL). Waits until the last byte written is on the line, then changes its rate to one of
     * etd_target.bauds. */
    void (*set_baud)(uint32_t baud);
    /* Why the firmware has started, as ETD_POSTMORTEM_REASON_* bits; NULL when the board cannot tell. */
    uint32_t (*reset_reason)(void);
    /* The whole stack, which grows down; NULL when its place is not known. */
    uint32_t *stack_bottom;
    uint32_t *stack_top;
} etd_port;

/* A clock domain that events may be timed by besides domain 0, such as an accelerator's own counter. */
typedef struct {
    const char *name;
    uint32_t hz_numerator;
    uint32_t hz_denominator;
    uint8_t bits;
    bool down; /* counts towards zero */
} etd_clock;

/* The target as it describes itself in HELLO. The clock fields describe domain 0, which counts up. */
typedef struct {
    const char *board;
    const char *cpu;
    const char *clock_name;
    uint32_t clock_hz_numerator;
    uint32_t clock_hz_denominator;
    uint8_t clock_bits;
    uint8_t more_clock_count;
    uint8_t baud_count;
    const uint32_t *bauds; /* rates of the line, the one after a reset first; NULL when it has but one */
    const etd_clock *more_clocks; /* domains 1, 2, ...; NULL when there are none */
} etd_target;

/* From a fault handler, on whatever stack: keeps what is known of the fault over the reset that follows. */
void etd_app_fault(const etd_fault *fault);

_Noreturn void etd_app_main(const etd_port *port, const etd_target *target);

#endif
