// SPDX-License-Identifier: Apache-2.0
/* Registers of the RP2350, named as in its datasheet. */
#ifndef RP2350_H
#define RP2350_H

#include "bare_metal.h"

/* Clocks, section 8.1. SELECTED has one bit per source, set for the active one. */
#define CLK_REF_CTRL REGISTER(0x40010030u)
#define CLK_REF_SELECTED REGISTER(0x40010038u)
#define CLK_SYS_CTRL REGISTER(0x4001003Cu)
#define CLK_SYS_SELECTED REGISTER(0x40010044u)
#define CLK_PERI_CTRL REGISTER(0x40010048u)
#define CLK_REF_SRC_XOSC 2u
#define CLK_SYS_SRC_REF 0u
#define CLK_SYS_SRC_AUX 1u         /* AUXSRC 0 is PLL_SYS */
#define CLK_PERI_ENABLE (1u << 11) /* AUXSRC 0 is clk_sys */

/* Resets of subsystems, section 7.5. */
#define RESETS_RESET REGISTER(0x40020000u)
#define RESETS_RESET_DONE REGISTER(0x40020008u)
#define RESETS_IO_BANK0 (1u << 6)
#define RESETS_PADS_BANK0 (1u << 9)
#define RESETS_PLL_SYS (1u << 14)
#define RESETS_TIMER0 (1u << 23)
#define RESETS_UART0 (1u << 26)

/* Pins and pads, sections 9.11.1 and 9.11.3. */
#define IO_BANK0_CTRL(pin) REGISTER(0x40028004u + 8u * (pin))
#define IO_BANK0_FUNCTION_UART 2u
#define PADS_BANK0(pin) REGISTER(0x40038004u + 4u * (pin))
#define PADS_SCHMITT (1u << 1)
#define PADS_PULL_UP (1u << 3)
#define PADS_DRIVE_4_MA (1u << 4)
#define PADS_INPUT (1u << 6)

/* The crystal oscillator, section 8.2. */
#define XOSC_CTRL REGISTER(0x40048000u)
#define XOSC_STATUS REGISTER(0x40048004u)
#define XOSC_STARTUP REGISTER(0x4004800Cu)
#define XOSC_CTRL_ON_1_TO_15_MHZ 0xFABAA0u
#define XOSC_STATUS_STABLE (1u << 31)

/* The PLL of clk_sys, section 8.6. */
#define PLL_SYS_CS REGISTER(0x40050000u)
#define PLL_SYS_PWR REGISTER(0x40050004u)
#define PLL_SYS_FBDIV REGISTER(0x40050008u)
#define PLL_SYS_PRIM REGISTER(0x4005000Cu)
#define PLL_CS_LOCK (1u << 31)
#define PLL_CS_REFDIV(divisor) (divisor)
#define PLL_PWR_DSM_OFF (1u << 2)
#define PLL_PWR_POSTDIV_OFF (1u << 3)
#define PLL_PRIM_DIVISORS(first, second) ((first) << 16 | (second) << 12)

/* TIMER0, section 12.8. */
#define TIMER_TIMEHW REGISTER(0x400B0000u)
#define TIMER_TIMELW REGISTER(0x400B0004u)
#define TIMER_TIMERAWL REGISTER(0x400B0028u)
#define TIMER_PAUSE REGISTER(0x400B0030u)
#define TIMER_SOURCE REGISTER(0x400B0038u)
#define TIMER_SOURCE_CLK_SYS 1u

#endif
