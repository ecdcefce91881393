#include "cmsdk_uart.h"

#include "cortex_m.h"

#define BAUD 115200u
#define BITS_PER_BYTE 10u

#define DATA REGISTER(ET_UART)
#define STATE REGISTER(ET_UART + 0x4u)
#define CTRL REGISTER(ET_UART + 0x8u)
#define INTCLEAR REGISTER(ET_UART + 0xCu)
#define BAUDDIV REGISTER(ET_UART + 0x10u)
#define STATE_TXFULL 1u
#define STATE_RXFULL 2u
#define CTRL_TX 1u
#define CTRL_RX 2u
#define CTRL_RX_INTERRUPT 8u
#define INT_RX 2u

void cmsdk_uart_start(void) {
    BAUDDIV = ET_UART_HZ / BAUD;
    CTRL = CTRL_TX | CTRL_RX | CTRL_RX_INTERRUPT;
    cortex_m_wake_on(ET_UART_IRQ);
}

static void wait_for_buffer(void) {
    while ((STATE & STATE_TXFULL) != 0) {
    }
}

void cortex_m_console(const uint8_t *bytes, uint32_t size) {
    for (uint32_t i = 0; i < size; i++) {
        wait_for_buffer();
        DATA = bytes[i];
    }
}

uint32_t cmsdk_uart_read(uint8_t *bytes, uint32_t size) {
    uint32_t count = 0;
    while (count < size && (STATE & STATE_RXFULL) != 0) {
        bytes[count++] = (uint8_t)DATA;
    }
    return count;
}

void cmsdk_uart_idle(void) {
    __asm volatile("wfi");
    /* Cleared before the next look at the UART, so a byte that arrives meanwhile is not slept over. */
    INTCLEAR = INT_RX;
    cortex_m_unpend(ET_UART_IRQ);
}

void cmsdk_uart_reboot(void) {
    wait_for_buffer();
    /* The last byte has left the buffer, but not the shift register, and no flag tells when it has. The CPU
     * is not slower than the UART's clock by more than a round of this loop takes cycles. */
    for (volatile uint32_t left = 2 * BITS_PER_BYTE * (ET_UART_HZ / BAUD); left > 0; left--) {
    }
    cortex_m_reset();
}
