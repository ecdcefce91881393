// SPDX-License-Identifier: Apache-2.0
/* Arm's PL011 UART (DDI 0183), used by Stellaris and RP2350. It has FIFOs of 16 bytes or more.
 *
 * A port that adds this file to its sources must define ETD_UART (address) and ETD_UART_HZ (clock) and call
 * pl011_uart_start in port_start. This file implements the UART functions of bare_metal.h. */
#include "pl011_uart.h"

#define BAUD 115200u

#define DATA REGISTER(ETD_UART)
#define FLAGS REGISTER(ETD_UART + 0x18u)
#define IBRD REGISTER(ETD_UART + 0x24u)
#define FBRD REGISTER(ETD_UART + 0x28u)
#define LCRH REGISTER(ETD_UART + 0x2Cu)
#define CTRL REGISTER(ETD_UART + 0x30u)
#define MASK REGISTER(ETD_UART + 0x38u)
#define CLEAR REGISTER(ETD_UART + 0x44u)
#define DATA_OVERRUN (1u << 11)
#define FLAG_BUSY (1u << 3)
#define FLAG_RX_EMPTY (1u << 4)
#define FLAG_TX_FULL (1u << 5)
#define LCRH_8_BITS_FIFO (3u << 5 | 1u << 4)
#define CTRL_ON (1u << 9 | 1u << 8 | 1u)
#define INT_RECEIVED (1u << 4 | 1u << 6) /* FIFO level reached, or receive timeout */
#define INT_ROOM (1u << 5)

const uint32_t pl011_uart_bauds[PL011_UART_BAUDS] = {BAUD, 230400, 460800, 921600};

void port_set_baud(uint32_t baud) {
    /* The divider is in units of 1/64: clock / 16 / baud, rounded. */
    uint32_t divider = (8 * ETD_UART_HZ / baud + 1) / 2;
    CTRL = 0;
    IBRD = divider / 64;
    FBRD = divider % 64;
    LCRH = LCRH_8_BITS_FIFO;
    CTRL = CTRL_ON;
}

void pl011_uart_start(void) {
    port_set_baud(BAUD);
}

int32_t port_receive(void) {
    CLEAR = INT_RECEIVED;
    if ((FLAGS & FLAG_RX_EMPTY) != 0) {
        return -1;
    }
    uint32_t received = DATA;
    return (int32_t)(received & 0xFFu) | ((received & DATA_OVERRUN) != 0 ? ETD_UART_OVERRUN : 0);
}

bool port_send(uint8_t byte) {
    CLEAR = INT_ROOM;
    if ((FLAGS & FLAG_TX_FULL) != 0) {
        return false;
    }
    DATA = byte;
    return true;
}

void port_interrupts(bool received, bool room) {
    MASK = (received ? INT_RECEIVED : 0) | (room ? INT_ROOM : 0);
}

void port_finish_sending(void) {
    while ((FLAGS & FLAG_BUSY) != 0) {
    }
}
