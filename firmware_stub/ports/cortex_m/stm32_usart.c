// SPDX-License-Identifier: Apache-2.0
/* The USART of STM32F1 and STM32F4 (RM0041 chapter 23, RM0390 chapter 25).
 *
 * A port that adds this file to its sources must define ETD_UART (address) and ETD_UART_HZ (clock) and call
 * stm32_usart_start in port_start. This file implements the UART functions of bare_metal.h. */
#include "stm32_usart.h"

#define SR REGISTER(ETD_UART)
#define DR REGISTER(ETD_UART + 0x4u)
#define BRR REGISTER(ETD_UART + 0x8u)
#define CR1 REGISTER(ETD_UART + 0xCu)
#define SR_ORE (1u << 3)
#define SR_RXNE (1u << 5)
#define SR_TC (1u << 6)
#define SR_TXE (1u << 7)
#define CR1_ON (1u << 13 | 1u << 3 | 1u << 2) /* UE, TE, RE */
#define CR1_RXNEIE (1u << 5)
#define CR1_TXEIE (1u << 7)
#define NVIC_SET REGISTER(0xE000E100u + ETD_UART_IRQ / 32u * 4u)
#define NVIC_CLEAR REGISTER(0xE000E180u + ETD_UART_IRQ / 32u * 4u)

void port_set_baud(uint32_t baud) {
    BRR = (ETD_UART_HZ + baud / 2) / baud;
}

void stm32_usart_start(uint32_t baud) {
    port_set_baud(baud);
    CR1 = CR1_ON;
}

/* Reading the state and then the data clears an overrun. One that happens between the two reads remains, and
 * then there may be no byte. It has to be cleared all the same, because it raises the receive interrupt, too
 * (RM0390 chapter 25.4.2), which would be taken again and again. */
int32_t port_receive(void) {
    static bool overrun; /* not yet reported */
    uint32_t state = SR;
    overrun = overrun || (state & SR_ORE) != 0;
    if ((state & SR_RXNE) == 0) {
        if ((state & SR_ORE) != 0) {
            (void)DR;
        }
        return -1;
    }
    int32_t received = (int32_t)(DR & 0xFFu) | (overrun ? ETD_UART_OVERRUN : 0);
    overrun = false;
    return received;
}

bool port_send(uint8_t byte) {
    if ((SR & SR_TXE) == 0) {
        return false;
    }
    DR = byte;
    return true;
}

void port_interrupts(bool received, bool room) {
    CR1 = CR1_ON | (received ? CR1_RXNEIE : 0) | (room ? CR1_TXEIE : 0);
#ifdef ETD_UART_HOLDS_INTERRUPT
    /* Under QEMU 7.2 a received byte raises the interrupt until it is read, whatever CR1 says, and a full
     * ring reads none: without this the program would never continue. */
    if (received || room) {
        NVIC_SET = 1u << ETD_UART_IRQ % 32u;
    } else {
        NVIC_CLEAR = 1u << ETD_UART_IRQ % 32u;
    }
#endif
}

void port_finish_sending(void) {
    while ((SR & SR_TC) == 0) {
    }
}
