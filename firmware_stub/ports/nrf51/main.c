/* nRF51822 as on the BBC micro:bit v1: the UART, whose pins go to the USB interface, polled; TIMER0, the one
 * timer with 32 bits, as the tick counter. */
#include "cortex_m.h"
#include "et_port.h"

#define CLOCK_HZ 16000000u
#define UART_IRQ 2u

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
#define UART_INTERRUPTS REGISTER(0x40002304u)
#define UART_ENABLE REGISTER(0x40002500u)
#define UART_PIN_TX REGISTER(0x4000250Cu)
#define UART_PIN_RX REGISTER(0x40002514u)
#define UART_RX REGISTER(0x40002518u)
#define UART_TX REGISTER(0x4000251Cu)
#define UART_BAUD REGISTER(0x40002524u)
#define UART_ENABLED 4u
#define UART_BAUD_115200 0x01D7E000u
#define UART_INT_RECEIVED (1u << 2)

#define TIMER_START REGISTER(0x40008000u)
#define TIMER_STOP REGISTER(0x40008004u)
#define TIMER_CLEAR REGISTER(0x4000800Cu)
#define TIMER_CAPTURE REGISTER(0x40008040u)
#define TIMER_MODE REGISTER(0x40008504u)
#define TIMER_WIDTH REGISTER(0x40008508u)
#define TIMER_PRESCALER REGISTER(0x40008510u)
#define TIMER_CAPTURED REGISTER(0x40008540u)
#define TIMER_WIDTH_32 3u

/* From the crystal: the oscillator after reset is too far off for a UART. */
static void start_uart(void) {
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
    UART_INTERRUPTS = UART_INT_RECEIVED;
    UART_ENABLE = UART_ENABLED;
    UART_START_TX = 1;
    UART_START_RX = 1;
    cortex_m_wake_on(UART_IRQ);
}

void cortex_m_console(const uint8_t *bytes, uint32_t size) {
    /* Before main. */
    if (UART_ENABLE != UART_ENABLED) {
        start_uart();
    }
    for (uint32_t i = 0; i < size; i++) {
        UART_SENT = 0;
        UART_TX = bytes[i];
        while (UART_SENT == 0) {
        }
    }
}

static uint32_t receive(uint8_t *bytes, uint32_t size) {
    uint32_t count = 0;
    while (count < size && UART_RECEIVED != 0) {
        /* First, because reading lets the next byte of the FIFO set it again. */
        UART_RECEIVED = 0;
        bytes[count++] = (uint8_t)UART_RX;
    }
    return count;
}

static void idle(void) {
    __asm volatile("wfi");
    cortex_m_unpend(UART_IRQ);
}

static uint32_t ticks(void) {
    TIMER_CAPTURE = 1;
    return TIMER_CAPTURED;
}

static void restart_clock(void) {
    TIMER_STOP = 1;
    TIMER_MODE = 0;
    TIMER_WIDTH = TIMER_WIDTH_32;
    TIMER_PRESCALER = 0;
    TIMER_CLEAR = 1;
    TIMER_START = 1;
}

static void reboot(void) {
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
        .board = ET_BOARD,
        .cpu = ET_CPU,
        .clock_name = "TIMER0",
        .clock_hz_numerator = CLOCK_HZ,
        .clock_hz_denominator = 1,
        .clock_bits = 32,
    };
    start_uart();
    restart_clock();
    et_app_main(&port, &target);
}
