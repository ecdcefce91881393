// SPDX-License-Identifier: Apache-2.0
/* LM3S6965 evaluation board. UART 0, a serial port of the on-board debug interface. SysTick is the tick
 * counter, because QEMU cannot read the chip's 32-bit timers. */
#include "pl011_uart.h"

#define SYSCTL_RIS REGISTER(0x400FE050u)
#define SYSCTL_RCC REGISTER(0x400FE060u)
#define SYSCTL_RCGC1 REGISTER(0x400FE104u)
#define SYSCTL_RCGC2 REGISTER(0x400FE108u)
#define RIS_PLL_LOCKED (1u << 6)
#define RCC_DIVIDE_BY_4 (3u << 23)
#define RCC_DIVIDER_MASK (15u << 23)
#define RCC_DIVIDER_ON (1u << 22)
#define RCC_PLL_DOWN (1u << 13)
#define RCC_PLL_OUTPUT_OFF (1u << 12)
#define RCC_BYPASS (1u << 11)
#define RCC_CRYSTAL_8_MHZ (14u << 6)
#define RCC_CRYSTAL_MASK (15u << 6)
#define RCC_SOURCE_MASK (3u << 4) /* zero: the main oscillator */
#define RCC_MAIN_OSCILLATOR_OFF 1u
#define RCGC1_UART0 1u
#define RCGC2_PORT_A 1u

#define PORT_A_FUNCTION REGISTER(0x40004420u)
#define PORT_A_DIGITAL REGISTER(0x4000451Cu)
#define PORT_A_UART 3u /* PA0 receives, PA1 transmits */

#define SYSTICK_CTRL REGISTER(0xE000E010u)
#define SYSTICK_RELOAD REGISTER(0xE000E014u)
#define SYSTICK_VALUE REGISTER(0xE000E018u)
#define SYSTICK_ON_CPU_CLOCK 5u
#define SYSTICK_MAX 0xFFFFFFu

/* 50 MHz: the PLL's 200 MHz divided by four. The crystal clocks the chip until the PLL has locked. */
static void start_clock(void) {
    uint32_t rcc = SYSCTL_RCC | RCC_BYPASS;
    rcc &= ~(RCC_DIVIDER_ON | RCC_MAIN_OSCILLATOR_OFF);
    SYSCTL_RCC = rcc;
    rcc &= ~(RCC_CRYSTAL_MASK | RCC_SOURCE_MASK | RCC_PLL_DOWN | RCC_PLL_OUTPUT_OFF | RCC_DIVIDER_MASK);
    rcc |= RCC_CRYSTAL_8_MHZ | RCC_DIVIDE_BY_4 | RCC_DIVIDER_ON;
    SYSCTL_RCC = rcc;
    while ((SYSCTL_RIS & RIS_PLL_LOCKED) == 0) {
    }
    SYSCTL_RCC = rcc & ~RCC_BYPASS;
}

static void start_uart(void) {
    SYSCTL_RCGC1 |= RCGC1_UART0;
    SYSCTL_RCGC2 |= RCGC2_PORT_A;
    /* A device is ready three cycles after its clock starts; a read takes longer. */
    (void)SYSCTL_RCGC2;
    PORT_A_FUNCTION |= PORT_A_UART;
    PORT_A_DIGITAL |= PORT_A_UART;
    pl011_uart_start();
}

void port_start(void) {
    start_clock();
    start_uart();
}

/* SysTick counts down. Clearing it sets it to zero, and the next tick reloads it. */
uint32_t port_ticks(void) {
    return (0u - SYSTICK_VALUE) & SYSTICK_MAX;
}

void port_restart_clock(void) {
    SYSTICK_CTRL = 0;
    SYSTICK_RELOAD = SYSTICK_MAX;
    SYSTICK_VALUE = 0;
    SYSTICK_CTRL = SYSTICK_ON_CPU_CLOCK;
}

const etd_target port_target = {
    .board = ETD_BOARD,
    .cpu = ETD_CPU,
    .clock_name = "SysTick",
    .clock_hz_numerator = ETD_CLOCK_HZ,
    .clock_hz_denominator = 1,
    .clock_bits = 24,
    .baud_count = PL011_UART_BAUDS,
    .bauds = pl011_uart_bauds,
};
