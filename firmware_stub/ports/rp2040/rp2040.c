// SPDX-License-Identifier: Apache-2.0
/* Raspberry Pi Pico (RP2040, Cortex-M0+). UART 0 on GP0 (transmit) and GP1 (receive). The tick counter is
 * SysTick, whose 24 bits the timer of microseconds widens to 32: both count the same crystal. */
#include "rp2040.h"
#include "pl011_uart.h"

#define PIN_SEND 0u
#define PIN_RECEIVE 1u
#define SUBSYSTEMS (RESETS_IO_BANK0 | RESETS_PADS_BANK0 | RESETS_TIMER | RESETS_UART0)

#define CRYSTAL_MHZ 12u
#define TICKS_PER_US (ETD_CLOCK_HZ / 1000000u)

/* Start-up delay of the crystal in units of 256 periods: 1 ms. */
#define XOSC_DELAY 47u

static void begin(uint32_t subsystems) {
    RESETS_RESET |= subsystems;
    RESETS_RESET &= ~subsystems;
    while ((RESETS_RESET_DONE & subsystems) != subsystems) {
    }
}

/* 12 MHz * 125 / (6 * 2) = 125 MHz. A reset of the core alone leaves the clocks unchanged, so nothing may run
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
    PLL_SYS_PRIM = PLL_PRIM_DIVISORS(6u, 2u);
    PLL_SYS_PWR = PLL_PWR_DSM_OFF;
    CLK_SYS_CTRL = CLK_SYS_SRC_AUX;
    while (CLK_SYS_SELECTED != 1u << CLK_SYS_SRC_AUX) {
    }
    CLK_PERI_CTRL = CLK_PERI_ENABLE;
}

void port_start(void) {
    start_clock();
    begin(SUBSYSTEMS);
    WATCHDOG_TICK = WATCHDOG_TICK_ENABLE | CRYSTAL_MHZ;
    IO_BANK0_CTRL(PIN_SEND) = IO_BANK0_FUNCTION_UART;
    IO_BANK0_CTRL(PIN_RECEIVE) = IO_BANK0_FUNCTION_UART;
    pl011_uart_start();
}

static uint32_t start_us;

/* The microseconds tell the ticks to within some hundred, and SysTick tells their low 24 bits: the nearest
 * number with these bits is exact, however long ago the last reading was. SysTick counts down. Clearing it
 * sets it to zero, and the next tick reloads it. */
uint32_t port_ticks(void) {
    uint32_t coarse = (TIMER_TIMERAWL - start_us) * TICKS_PER_US;
    uint32_t ahead = (0u - SYST_CVR - coarse) & SYST_MAX;
    return coarse + ahead - (ahead > SYST_MAX / 2u ? SYST_MAX + 1u : 0u);
}

void port_restart_clock(void) {
    SYST_CSR = 0;
    SYST_RVR = SYST_MAX;
    SYST_CVR = 0;
    SYST_CSR = SYST_CSR_ON_CPU_CLOCK;
    start_us = TIMER_TIMERAWL;
}

const etd_target port_target = {
    .board = ETD_BOARD,
    .cpu = ETD_CPU,
    .clock_name = "SysTick and TIMER",
    .clock_hz_numerator = ETD_CLOCK_HZ,
    .clock_hz_denominator = 1,
    .clock_bits = 32,
    .baud_count = PL011_UART_BAUDS,
    .bauds = pl011_uart_bauds,
};
