// SPDX-License-Identifier: Apache-2.0
/* Registers of the nRF51 and nRF52, named as in the nRF51 Series Reference Manual and the Product
 * Specifications of nRF52833 and nRF52840. The UART is the one without DMA, which all of them have. */
#ifndef NRF_H
#define NRF_H

#include "bare_metal.h"

/* CLOCK and POWER, at the same addresses (nRF51 chapters 12 and 13, nRF52 chapter 5). */
#define CLOCK_TASKS_HFCLKSTART REGISTER(0x40000000u)
#define CLOCK_EVENTS_HFCLKSTARTED REGISTER(0x40000100u)
#define POWER_RESETREAS REGISTER(0x40000400u)
#define RESETREAS_RESETPIN 1u
#define RESETREAS_DOG (1u << 1)
#define RESETREAS_SREQ (1u << 2)
#define RESETREAS_LOCKUP (1u << 3)

/* UART 0 (nRF51 chapter 29, nRF52 chapter 6, "UART"). */
#define UART_TASKS_STARTRX REGISTER(0x40002000u)
#define UART_TASKS_STARTTX REGISTER(0x40002008u)
#define UART_EVENTS_RXDRDY REGISTER(0x40002108u)
#define UART_EVENTS_TXDRDY REGISTER(0x4000211Cu)
#define UART_INTENSET REGISTER(0x40002304u)
#define UART_INTENCLR REGISTER(0x40002308u)
#define UART_ERRORSRC REGISTER(0x40002480u)
#define UART_ENABLE REGISTER(0x40002500u)
#define UART_PSELTXD REGISTER(0x4000250Cu)
#define UART_PSELRXD REGISTER(0x40002514u)
#define UART_RXD REGISTER(0x40002518u)
#define UART_TXD REGISTER(0x4000251Cu)
#define UART_BAUDRATE REGISTER(0x40002524u)
#define UART_INT_RXDRDY (1u << 2)
#define UART_INT_TXDRDY (1u << 7)
#define UART_ERRORSRC_OVERRUN 1u
#define UART_ENABLED 4u
#define UART_BAUDRATE_115200 0x01D7E000u /* other rates are approximately multiples of this */

/* TIMER 0 (nRF51 chapter 18, nRF52 chapter 6, "TIMER"). */
#define TIMER_TASKS_START REGISTER(0x40008000u)
#define TIMER_TASKS_STOP REGISTER(0x40008004u)
#define TIMER_TASKS_CLEAR REGISTER(0x4000800Cu)
#define TIMER_TASKS_CAPTURE0 REGISTER(0x40008040u)
#define TIMER_MODE REGISTER(0x40008504u)
#define TIMER_BITMODE REGISTER(0x40008508u)
#define TIMER_PRESCALER REGISTER(0x40008510u)
#define TIMER_CC0 REGISTER(0x40008540u)
#define TIMER_MODE_TIMER 0u
#define TIMER_BITMODE_32 3u

/* NVMC: code cache, nRF52 only (chapter 4, "NVMC"). */
#define NVMC_ICACHECNF REGISTER(0x4001E540u)

/* GPIO. Pins 32 and up are on the second port of nRF52833 and nRF52840 (chapter 6, "GPIO"). */
#define GPIO(pin) (0x50000000u + (pin) / 32u * 0x300u)
#define GPIO_OUTSET(pin) REGISTER(GPIO(pin) + 0x508u)
#define GPIO_DIRSET(pin) REGISTER(GPIO(pin) + 0x518u)
#define GPIO_PIN_CNF(pin) REGISTER(GPIO(pin) + 0x700u + 4u * ((pin) % 32u))
#define GPIO_PIN_CNF_INPUT 0u

#endif
