// SPDX-License-Identifier: Apache-2.0
/* FILL_IN: the chip and the board; UART and its pins; tick counter.
 *
 * Template for a new Cortex-M board (docs/boards.md). Replace each FILL_IN by a number, a name or a line for
 * the board. The code expects a UART with a data, a state, a control and an interrupt-clear register, and a
 * counter that counts down. Change it where the chip differs. */
#include "bare_metal.h"

/* Rate of the counter and clock of the UART, in Hz. */
#define COUNTER_HZ FILL_IN
#define UART_HZ FILL_IN
#define BAUD 115200u

#define UART FILL_IN /* address */
#define UART_DATA REGISTER(UART + FILL_IN)
#define UART_STATE REGISTER(UART + FILL_IN)
#define UART_CTRL REGISTER(UART + FILL_IN)
#define UART_CLEAR REGISTER(UART + FILL_IN)
#define UART_DIVIDER REGISTER(UART + FILL_IN)
#define STATE_FULL FILL_IN     /* no room for a byte to send */
#define STATE_RECEIVED FILL_IN /* a received byte can be read */
#define STATE_OVERRUN FILL_IN  /* received bytes were lost; cleared by writing it */
#define CTRL_ON FILL_IN        /* enables transmitter and receiver */
#define CTRL_INT_RECEIVED FILL_IN
#define CTRL_INT_ROOM FILL_IN
#define CLEAR_RECEIVED FILL_IN
#define CLEAR_ROOM FILL_IN

#define COUNTER FILL_IN /* address */
#define COUNTER_CTRL REGISTER(COUNTER + FILL_IN)
#define COUNTER_VALUE REGISTER(COUNTER + FILL_IN)
#define COUNTER_RELOAD REGISTER(COUNTER + FILL_IN)
#define COUNTER_ON FILL_IN

/* Rates that the divider reaches within two percent; the rate after reset first. */
static const uint32_t bauds[] = {BAUD, FILL_IN};

void port_set_baud(uint32_t baud) {
    UART_DIVIDER = UART_HZ / baud;
}

/* Variables are not initialized yet. */
void port_start(void) {
    FILL_IN; /* start the chip's clock, then the UART's clock; set up its pins */
    port_set_baud(BAUD);
    UART_CTRL = CTRL_ON;
}

/* WARNING: with many UARTs an overrun raises the receive interrupt, too, and it may happen after the state
 * was read. Clear it even if there is no byte, or the interrupt is taken again and again and the firmware
 * hangs. Read in the manual what clears it: here it is a write of the flag; with some it is a read of the
 * state followed by a read of the data (ports/stm32f4/stm32f4.c). */
int32_t port_receive(void) {
    static bool overrun; /* not yet reported */
    UART_CLEAR = CLEAR_RECEIVED;
    uint32_t state = UART_STATE;
    if ((state & STATE_OVERRUN) != 0) {
        UART_STATE = STATE_OVERRUN;
        overrun = true;
    }
    if ((state & STATE_RECEIVED) == 0) {
        return -1;
    }
    int32_t received = (int32_t)(UART_DATA & 0xFFu) | (overrun ? ETD_UART_OVERRUN : 0);
    overrun = false;
    return received;
}

bool port_send(uint8_t byte) {
    UART_CLEAR = CLEAR_ROOM;
    if ((UART_STATE & STATE_FULL) != 0) {
        return false;
    }
    UART_DATA = byte;
    return true;
}

/* Clears a disabled interrupt, because it may be pending already. */
void port_interrupts(bool received, bool room) {
    UART_CTRL = CTRL_ON | (received ? CTRL_INT_RECEIVED : 0) | (room ? CTRL_INT_ROOM : 0);
    UART_CLEAR = (received ? 0 : CLEAR_RECEIVED) | (room ? 0 : CLEAR_ROOM);
}

/* Called before a reset, which would cut off the byte on the line. If the UART has a flag for "all sent",
 * wait for it instead of the time of two bytes. */
void port_finish_sending(void) {
    while ((UART_STATE & STATE_FULL) != 0) {
    }
    for (volatile uint32_t left = 20 * (UART_HZ / BAUD); left > 0; left--) {
    }
}

/* Must count up. */
uint32_t port_ticks(void) {
    return UINT32_MAX - COUNTER_VALUE;
}

/* Sets the counter and its prescaler to zero, so that a simulated board gives the same ticks every time. */
void port_restart_clock(void) {
    COUNTER_CTRL = 0;
    COUNTER_RELOAD = UINT32_MAX;
    COUNTER_VALUE = UINT32_MAX;
    COUNTER_CTRL = COUNTER_ON;
}

const etd_target port_target = {
    .board = ETD_BOARD,
    .cpu = ETD_CPU,
    .clock_name = FILL_IN,
    .clock_hz_numerator = COUNTER_HZ,
    .clock_hz_denominator = 1,
    .clock_bits = FILL_IN,
    .baud_count = sizeof bauds / sizeof bauds[0],
    .bauds = bauds,
};
