// SPDX-License-Identifier: Apache-2.0
/* Raspberry Pi Pico 2 (RP2350, Cortex-M33). UART 0 on GP0 (transmit) and GP1 (receive). The low 32 bits of
 * TIMER0 are the tick counter; it counts clk_sys instead of microseconds and does not stop while the core
 * sleeps. */
#include "rp2350.h"
#include "pl011_uart.h"

#define PIN_SEND 0u
#define PIN_RECEIVE 1u
#define SUBSYSTEMS (RESETS_IO_BANK0 | RESETS_PADS_BANK0 | RESETS_TIMER0 | RESETS_UART0)

/* Start-up delay of the crystal in units of 256 periods: 64 ms. */
#define XOSC_DELAY 3000u

/* Minimal image definition for the boot ROM: an executable for Arm in the Secure state, with the vectors at
 * the start of the image (section 5.9.5.1). It must lie in the first 4 KiB. */
__attribute__((section(".boot"), used)) static const uint32_t image_definition[] = {
    0xFFFFDED3u, /* start of block */
    0x10210142u, /* item IMAGE_TYPE, one word: RP2350, Arm, Secure, executable */
    0x000001FFu, /* last item; the items have one word in total */
    0u,          /* no other block */
    0xAB123579u, /* end of block */
};

static void begin(uint32_t subsystems) {
    RESETS_RESET |= subsystems;
    RESETS_RESET &= ~subsystems;
    while ((RESETS_RESET_DONE & subsystems) != subsystems) {
    }
}

/* 12 MHz * 125 / (5 * 2) = 150 MHz. A reset of the core alone leaves the clocks unchanged, so nothing may run
 * from the PLL while it is configured. */
static void start_clock(void) {
    CLK_SYS_CTRL = CLK_SYS_SRC_REF;
    while (CLK_SYS_SELECTED != 1u << CLK_SYS_SRC_REF) {
    }
    XOSC_STARTUP = XOSC_DELAY;
    XOSC_CTRL = XOSC_CTRL_ON_1_TO_15_MHZ;
    while ((XOSC_STATUS & XOSC_STATUS_STABLE) == 0) {
    }
    CLK_REF_CTRL = CLK_REF_SRC_XOSC;
    while (CLK_REF_SELECTED != 1u << CLK_REF_SRC_XOSC) {
    }
    begin(RESETS_PLL_SYS);
    PLL_SYS_CS = PLL_CS_REFDIV(1u);
    PLL_SYS_FBDIV = 125;
    PLL_SYS_PWR = PLL_PWR_DSM_OFF | PLL_PWR_POSTDIV_OFF;
    while ((PLL_SYS_CS & PLL_CS_LOCK) == 0) {
    }
    PLL_SYS_PRIM = PLL_PRIM_DIVISORS(5u, 2u);
    PLL_SYS_PWR = PLL_PWR_DSM_OFF;
    CLK_SYS_CTRL = CLK_SYS_SRC_AUX;
    while (CLK_SYS_SELECTED != 1u << CLK_SYS_SRC_AUX) {
    }
    CLK_PERI_CTRL = CLK_PERI_ENABLE;
}

void port_start(void) {
    start_clock();
    begin(SUBSYSTEMS);
    IO_BANK0_CTRL(PIN_SEND) = IO_BANK0_FUNCTION_UART;
    IO_BANK0_CTRL(PIN_RECEIVE) = IO_BANK0_FUNCTION_UART;
    /* This also ends the isolation of the pads. */
    PADS_BANK0(PIN_SEND) = PADS_INPUT | PADS_DRIVE_4_MA | PADS_SCHMITT;
    PADS_BANK0(PIN_RECEIVE) = PADS_INPUT | PADS_DRIVE_4_MA | PADS_SCHMITT | PADS_PULL_UP;
    pl011_uart_start();
}

uint32_t port_ticks(void) {
    return TIMER_TIMERAWL;
}

/* Writing the upper half makes the value of the lower half take effect. */
void port_restart_clock(void) {
    TIMER_PAUSE = 1;
    TIMER_SOURCE = TIMER_SOURCE_CLK_SYS;
    TIMER_TIMELW = 0;
    TIMER_TIMEHW = 0;
    TIMER_PAUSE = 0;
}

const etd_target port_target = {
    .board = ETD_BOARD,
    .cpu = ETD_CPU,
    .clock_name = "TIMER0",
    .clock_hz_numerator = ETD_CLOCK_HZ,
    .clock_hz_denominator = 1,
    .clock_bits = 32,
    .baud_count = PL011_UART_BAUDS,
    .bauds = pl011_uart_bauds,
};
