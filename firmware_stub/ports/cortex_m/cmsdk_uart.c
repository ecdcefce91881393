// SPDX-License-Identifier: Apache-2.0
/* UART of Arm's CMSDK, used in the FPGA images of MPS2 and MPS3. It buffers one byte in each direction.
 *
 * A port that adds this file to its sources must define ETD_UART (address) and ETD_UART_HZ (clock) and call
 * cmsdk_uart_start in port_start. This file implements the UART functions of bare_metal.h. */
#include "cmsdk_uart.h"

#define BAUD 115200u
#define BITS_PER_BYTE 10u

#define DATA REGISTER(ETD_UART)
#define STATE REGISTER(ETD_UART + 0x4u)
#define CTRL REGISTER(ETD_UART + 0x8u)
#define INTCLEAR REGISTER(ETD_UART + 0xCu)
#define BAUDDIV REGISTER(ETD_UART + 0x10u)
#define STATE_TXFULL 1u
#define STATE_RXFULL 2u
#define STATE_RXOVERRUN 8u
#define CTRL_TX 1u
#define CTRL_RX 2u
#define CTRL_TX_INTERRUPT 4u
#define CTRL_RX_INTERRUPT 8u
#define INT_TX 1u
#define INT_RX 2u

const uint32_t cmsdk_uart_bauds[CMSDK_UART_BAUDS] = {BAUD, 230400, 460800, 921600};

void port_set_baud(uint32_t baud) {
    BAUDDIV = ETD_UART_HZ / baud;
}

void cmsdk_uart_start(void) {
    port_set_baud(BAUD);
    CTRL = CTRL_TX | CTRL_RX;
}

int32_t port_receive(void) {
    INTCLEAR = INT_RX;
    uint32_t state = STATE;
    if ((state & STATE_RXFULL) == 0) {
        return -1;
    }
    if ((state & STATE_RXOVERRUN) == 0) {
        return (int32_t)(DATA & 0xFFu);
    }
    STATE = STATE_RXOVERRUN;
    return (int32_t)(DATA & 0xFFu) | ETD_UART_OVERRUN;
}

bool port_send(uint8_t byte) {
    INTCLEAR = INT_TX;
    if ((STATE & STATE_TXFULL) != 0) {
        return false;
    }
    DATA = byte;
    return true;
}

/* A raised interrupt stays pending until it is cleared, even if it is disabled. */
void port_interrupts(bool received, bool room) {
    CTRL = CTRL_TX | CTRL_RX | (received ? CTRL_RX_INTERRUPT : 0) | (room ? CTRL_TX_INTERRUPT : 0);
    INTCLEAR = (received ? 0 : INT_RX) | (room ? 0 : INT_TX);
}

void port_finish_sending(void) {
    while ((STATE & STATE_TXFULL) != 0) {
    }
    /* The last byte may still be in the shift register, and no flag shows when it has left. The loop waits
     * for two bytes: one round takes the CPU at least one cycle of the UART's clock. */
    for (volatile uint32_t left = 2 * BITS_PER_BYTE * (ETD_UART_HZ / BAUD); left > 0; left--) {
    }
}
