// SPDX-License-Identifier: Apache-2.0
/* Registers of the RP2040, named as in its datasheet. */
#ifndef RP2040_H
#define RP2040_H

#include "bare_metal.h"

/* Clocks, section 2.15.7. SELECTED has one bit per source, set for the active one. */
#define CLK_REF_CTRL REGISTER(0x40008030u)
#define CLK_REF_SELECTED REGISTER(0x40008038u)
#define CLK_SYS_CTRL REGISTER(0x4000803Cu)
#define CLK_SYS_SELECTED REGISTER(0x40008044u)
#define CLK_PERI_CTRL REGISTER(0x40008048u)
#define CLK_REF_SRC_XOSC 2u
#define CLK_SYS_SRC_REF 0u
#define CLK_SYS_SRC_AUX 1u         /* AUXSRC 0 is PLL_SYS */
#define CLK_PERI_ENABLE (1u << 11) /* AUXSRC 0 is clk_sys */

/* Resets of subsystems, section 2.14.3. */
#define RESETS_RESET REGISTER(0x4000C000u)
#define RESETS_RESET_DONE REGISTER(0x4000C008u)
#define RESETS_IO_BANK0 (1u << 5)
#define RESETS_PADS_BANK0 (1u << 8)
#define RESETS_PLL_SYS (1u << 12)
#define RESETS_TIMER (1u << 21)
#define RESETS_UART0 (1u << 22)

/* Pins, section 2.19.6.1. */
#define IO_BANK0_CTRL(pin) REGISTER(0x40014004u + 8u * (pin))
#define IO_BANK0_FUNCTION_UART 2u

/* The crystal oscillator, section 2.16.7. */
#define XOSC_CTRL REGISTER(0x40024000u)
#define XOSC_STATUS REGISTER(0x40024004u)
#define XOSC_STARTUP REGISTER(0x4002400Cu)
#define XOSC_CTRL_ON_1_TO_15_MHZ 0xFABAA0u
#define XOSC_STATUS_STABLE (1u << 31)

/* The PLL of clk_sys, section 2.18.4. */
#define PLL_SYS_CS REGISTER(0x40028000u)
#define PLL_SYS_PWR REGISTER(0x40028004u)
#define PLL_SYS_FBDIV REGISTER(0x40028008u)
#define PLL_SYS_PRIM REGISTER(0x4002800Cu)
#define PLL_CS_LOCK (1u << 31)
#define PLL_CS_REFDIV(divisor) (divisor)
#define PLL_PWR_DSM_OFF (1u << 2)
#define PLL_PWR_POSTDIV_OFF (1u << 3)
#define PLL_PRIM_DIVISORS(first, second) ((first) << 16 | (second) << 12)

/* The timer, section 4.6.5, which counts microseconds, and the tick that it counts, section 4.7.6. */
#define TIMER_TIMERAWL REGISTER(0x40054028u)
#define WATCHDOG_TICK REGISTER(0x4005802Cu)
#define WATCHDOG_TICK_ENABLE (1u << 9)

/* SysTick of the core, section 2.4.8. */
#define SYST_CSR REGISTER(0xE000E010u)
#define SYST_RVR REGISTER(0xE000E014u)
#define SYST_CVR REGISTER(0xE000E018u)
#define SYST_CSR_ON_CPU_CLOCK 5u
#define SYST_MAX 0xFFFFFFu

#endif
