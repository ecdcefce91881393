/* nRF51822 as on the BBC micro:bit v1: the UART, whose pins go to the USB interface; TIMER0, the one
 * timer with 32 bits, as the tick counter. */
#include "bare_metal.h"

#define CLOCK_HZ 16000000u
#define BAUD 115200u

#define CRYSTAL_START REGISTER(0x40000000u)
#define CRYSTAL_STARTED REGISTER(0x40000100u)

#define PIN_SEND 24u
#define PIN_RECEIVE 25u
#define PINS_SET REGISTER(0x50000508u)
#define PINS_OUTPUT REGISTER(0x50000518u)
#define PIN_CONFIG(pin) REGISTER(0x50000700u + 4 * (pin))
#define PIN_CONFIG_INPUT 0u

#define UART_START_RX REGISTER(0x40002000u)
#define UART_START_TX REGISTER(0x40002008u)
#define UART_RECEIVED REGISTER(0x40002108u)
#define UART_SENT REGISTER(0x4000211Cu)
#define UART_INTERRUPTS_ON REGISTER(0x40002304u)
#define UART_INTERRUPTS_OFF REGISTER(0x40002308u)
#define UART_ERRORS REGISTER(0x40002480u)
#define UART_ENABLE REGISTER(0x40002500u)
#define UART_PIN_TX REGISTER(0x4000250Cu)
#define UART_PIN_RX REGISTER(0x40002514u)
#define UART_RX REGISTER(0x40002518u)
#define UART_TX REGISTER(0x4000251Cu)
#define UART_BAUD REGISTER(0x40002524u)
#define UART_ENABLED 4u
#define UART_BAUD_115200 0x01D7E000u /* other rates are multiples of this, nearly */
#define UART_INT_RECEIVED (1u << 2)
#define UART_INT_SENT (1u << 7)
#define UART_ERROR_OVERRUN 1u

#define TIMER_START REGISTER(0x40008000u)
#define TIMER_STOP REGISTER(0x40008004u)
#define TIMER_CLEAR REGISTER(0x4000800Cu)
#define TIMER_CAPTURE REGISTER(0x40008040u)
#define TIMER_MODE REGISTER(0x40008504u)
#define TIMER_WIDTH REGISTER(0x40008508u)
#define TIMER_PRESCALER REGISTER(0x40008510u)
#define TIMER_CAPTURED REGISTER(0x40008540u)
#define TIMER_WIDTH_32 3u

static const uint32_t bauds[] = {BAUD, 2 * BAUD, 4 * BAUD, 8 * BAUD};

void port_set_baud(uint32_t baud) {
    UART_BAUD = UART_BAUD_115200 * (baud / BAUD);
}

/* From the crystal: the oscillator after reset is too far off for a UART. */
void port_start(void) {
    CRYSTAL_STARTED = 0;
    CRYSTAL_START = 1;
    while (CRYSTAL_STARTED == 0) {
    }
    PINS_SET = 1u << PIN_SEND;
    PINS_OUTPUT = 1u << PIN_SEND;
    PIN_CONFIG(PIN_RECEIVE) = PIN_CONFIG_INPUT;
    UART_PIN_TX = PIN_SEND;
    UART_PIN_RX = PIN_RECEIVE;
    UART_BAUD = UART_BAUD_115200;
    UART_ENABLE = UART_ENABLED;
    UART_START_TX = 1;
    UART_START_RX = 1;
    /* A zero means nothing to the host, and from now on UART_SENT tells whether there is room. */
    UART_SENT = 0;
    UART_TX = 0;
}

int32_t port_receive(void) {
    if (UART_RECEIVED == 0) {
        return -1;
    }
    /* First, because reading lets the next byte of the FIFO set it again. */
    UART_RECEIVED = 0;
    int32_t received = (int32_t)UART_RX;
    if ((UART_ERRORS & UART_ERROR_OVERRUN) == 0) {
        return received;
    }
    UART_ERRORS = UART_ERROR_OVERRUN;
    return received | ET_UART_OVERRUN;
}

bool port_send(uint8_t byte) {
    if (UART_SENT == 0) {
        return false;
    }
    UART_SENT = 0;
    UART_TX = byte;
    return true;
}

void port_interrupts(bool received, bool room) {
    UART_INTERRUPTS_OFF = (received ? 0 : UART_INT_RECEIVED) | (room ? 0 : UART_INT_SENT);
    UART_INTERRUPTS_ON = (received ? UART_INT_RECEIVED : 0) | (room ? UART_INT_SENT : 0);
}

void port_finish_sending(void) {
    while (UART_SENT == 0) {
    }
}

uint32_t port_ticks(void) {
    TIMER_CAPTURE = 1;
    return TIMER_CAPTURED;
}

void port_restart_clock(void) {
    TIMER_STOP = 1;
    TIMER_MODE = 0;
    TIMER_WIDTH = TIMER_WIDTH_32;
    TIMER_PRESCALER = 0;
    TIMER_CLEAR = 1;
    TIMER_START = 1;
}

const et_target port_target = {
    .board = ET_BOARD,
    .cpu = ET_CPU,
    .clock_name = "TIMER0",
    .clock_hz_numerator = CLOCK_HZ,
    .clock_hz_denominator = 1,
    .clock_bits = 32,
    .baud_count = sizeof bauds / sizeof bauds[0],
    .bauds = bauds,
};
