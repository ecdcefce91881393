/* Arm MPS2: UART 0 polled, timer 0 as the tick counter. */
#include "cortex_m.h"
#include "et_port.h"

#define CLOCK_HZ 25000000u
#define BAUD 115200u
#define BITS_PER_BYTE 10u
#define UART_IRQ 0u /* receive interrupt of UART 0 */

#define UART_DATA REGISTER(0x40004000u)
#define UART_STATE REGISTER(0x40004004u)
#define UART_CTRL REGISTER(0x40004008u)
#define UART_INTCLEAR REGISTER(0x4000400Cu)
#define UART_BAUDDIV REGISTER(0x40004010u)
#define UART_STATE_TXFULL 1u
#define UART_STATE_RXFULL 2u
#define UART_CTRL_TX 1u
#define UART_CTRL_RX 2u
#define UART_CTRL_RX_INTERRUPT 8u
#define UART_INT_RX 2u

#define TIMER_CTRL REGISTER(0x40000000u)
#define TIMER_VALUE REGISTER(0x40000004u)
#define TIMER_RELOAD REGISTER(0x40000008u)

#define NVIC_ENABLE REGISTER(0xE000E100u)
#define NVIC_UNPEND REGISTER(0xE000E280u)

static void start_uart(void) {
    UART_BAUDDIV = CLOCK_HZ / BAUD;
    UART_CTRL = UART_CTRL_TX | UART_CTRL_RX | UART_CTRL_RX_INTERRUPT;
    /* Interrupts wake the CPU in idle() and are never taken: nothing disturbs an execution. */
    __asm volatile("cpsid i");
    NVIC_ENABLE = 1u << UART_IRQ;
}

static void wait_for_uart(void) {
    while ((UART_STATE & UART_STATE_TXFULL) != 0) {
    }
}

void cortex_m_console(const uint8_t *bytes, uint32_t size) {
    for (uint32_t i = 0; i < size; i++) {
        wait_for_uart();
        UART_DATA = bytes[i];
    }
}

static uint32_t receive(uint8_t *bytes, uint32_t size) {
    uint32_t count = 0;
    while (count < size && (UART_STATE & UART_STATE_RXFULL) != 0) {
        bytes[count++] = (uint8_t)UART_DATA;
    }
    return count;
}

static void idle(void) {
    __asm volatile("wfi");
    /* Cleared before the next look at the UART, so a byte that arrives meanwhile is not slept over. */
    UART_INTCLEAR = UART_INT_RX;
    NVIC_UNPEND = 1u << UART_IRQ;
}

/* The timer counts down. */
static uint32_t ticks(void) {
    return UINT32_MAX - TIMER_VALUE;
}

static void restart_clock(void) {
    TIMER_CTRL = 0;
    TIMER_RELOAD = UINT32_MAX;
    TIMER_VALUE = UINT32_MAX;
    TIMER_CTRL = 1;
}

static void reboot(void) {
    wait_for_uart();
    /* The last byte has left the buffer, but not the shift register. */
    uint32_t start = ticks();
    while (ticks() - start < 2 * BITS_PER_BYTE * (CLOCK_HZ / BAUD)) {
    }
    cortex_m_reset();
}

int main(void) {
    static const et_port port = {
        .read = receive,
        .write = cortex_m_console,
        .idle = idle,
        .ticks = ticks,
        .restart_clock = restart_clock,
        .reboot = reboot,
    };
    static const et_target target = {
        .board = "qemu-mps2-an385",
        .cpu = "cortex-m3",
        .clock_name = "CMSDK timer 0",
        .clock_hz_numerator = CLOCK_HZ,
        .clock_hz_denominator = 1,
        .clock_bits = 32,
    };
    start_uart();
    restart_clock();
    et_app_main(&port, &target);
}
