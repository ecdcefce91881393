// SPDX-License-Identifier: Apache-2.0
/* nRF51822, nRF52833 and nRF52840. The UART uses the pins set in port.cmake. TIMER0 is the tick counter: 32
 * bits, also counting while the core sleeps. */
#include "nrf.h"

#define CLOCK_HZ 16000000u
#define BAUD 115200u

static const uint32_t bauds[] = {BAUD, 2 * BAUD, 4 * BAUD, 8 * BAUD};

void port_set_baud(uint32_t baud) {
    UART_BAUDRATE = UART_BAUDRATE_115200 * (baud / BAUD);
}

/* Use the crystal: the oscillator after reset is not accurate enough for a UART. */
static void start_clock(void) {
    CLOCK_EVENTS_HFCLKSTARTED = 0;
    CLOCK_TASKS_HFCLKSTART = 1;
    while (CLOCK_EVENTS_HFCLKSTARTED == 0) {
    }
#ifdef ETD_NRF52
    NVMC_ICACHECNF = 1;
#endif
}

void port_start(void) {
    start_clock();
    GPIO_OUTSET(ETD_PIN_SEND) = 1u << ETD_PIN_SEND % 32u;
    GPIO_DIRSET(ETD_PIN_SEND) = 1u << ETD_PIN_SEND % 32u;
    GPIO_PIN_CNF(ETD_PIN_RECEIVE) = GPIO_PIN_CNF_INPUT;
    UART_PSELTXD = ETD_PIN_SEND;
    UART_PSELRXD = ETD_PIN_RECEIVE;
    UART_BAUDRATE = UART_BAUDRATE_115200;
    UART_ENABLE = UART_ENABLED;
    UART_TASKS_STARTTX = 1;
    UART_TASKS_STARTRX = 1;
    /* Send a NUL, which the host ignores. From now on TXDRDY shows whether there is room. */
    UART_EVENTS_TXDRDY = 0;
    UART_TXD = 0;
}

int32_t port_receive(void) {
    if (UART_EVENTS_RXDRDY == 0) {
        return -1;
    }
    /* Clear the event first: reading lets the next byte of the FIFO set it again. */
    UART_EVENTS_RXDRDY = 0;
    int32_t received = (int32_t)UART_RXD;
    if ((UART_ERRORSRC & UART_ERRORSRC_OVERRUN) == 0) {
        return received;
    }
    UART_ERRORSRC = UART_ERRORSRC_OVERRUN;
    return received | ETD_UART_OVERRUN;
}

bool port_send(uint8_t byte) {
    if (UART_EVENTS_TXDRDY == 0) {
        return false;
    }
    UART_EVENTS_TXDRDY = 0;
    UART_TXD = byte;
    return true;
}

void port_interrupts(bool received, bool room) {
    UART_INTENCLR = (received ? 0 : UART_INT_RXDRDY) | (room ? 0 : UART_INT_TXDRDY);
    UART_INTENSET = (received ? UART_INT_RXDRDY : 0) | (room ? UART_INT_TXDRDY : 0);
}

void port_finish_sending(void) {
    while (UART_EVENTS_TXDRDY == 0) {
    }
}

uint32_t port_ticks(void) {
    TIMER_TASKS_CAPTURE0 = 1;
    return TIMER_CC0;
}

void port_restart_clock(void) {
    TIMER_TASKS_STOP = 1;
    TIMER_MODE = TIMER_MODE_TIMER;
    TIMER_BITMODE = TIMER_BITMODE_32;
    TIMER_PRESCALER = 0;
    TIMER_TASKS_CLEAR = 1;
    TIMER_TASKS_START = 1;
}

#ifdef ETD_NRF52 /* QEMU's nRF51 does not have the register */
/* The register collects reasons until they are cleared by writing them back. It is zero after power-on. */
uint32_t port_reset_reason(void) {
    uint32_t flags = POWER_RESETREAS;
    POWER_RESETREAS = flags;
    uint32_t reason = flags == 0 ? ETD_POSTMORTEM_REASON_POWER : 0u;
    reason |= (flags & RESETREAS_RESETPIN) != 0 ? ETD_POSTMORTEM_REASON_PIN : 0u;
    reason |= (flags & RESETREAS_DOG) != 0 ? ETD_POSTMORTEM_REASON_WATCHDOG : 0u;
    reason |= (flags & RESETREAS_SREQ) != 0 ? ETD_POSTMORTEM_REASON_SOFTWARE : 0u;
    reason |= (flags & RESETREAS_LOCKUP) != 0 ? ETD_POSTMORTEM_REASON_LOCKUP : 0u;
    return reason | ETD_POSTMORTEM_REASON_KNOWN;
}
#endif

const etd_target port_target = {
    .board = ETD_BOARD,
    .cpu = ETD_CPU,
    .clock_name = "TIMER0",
    .clock_hz_numerator = CLOCK_HZ,
    .clock_hz_denominator = 1,
    .clock_bits = 32,
    .baud_count = sizeof bauds / sizeof bauds[0],
    .bauds = bauds,
};
