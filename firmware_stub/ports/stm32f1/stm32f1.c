// SPDX-License-Identifier: Apache-2.0
/* STM32VLDISCOVERY (STM32F100RB). USART 1 on PA9 (transmit) and PA10 (receive), on the header. SysTick is the
 * tick counter. The port runs from the oscillator that is active after reset, because QEMU has no clock tree:
 * the chip's has 8 MHz, QEMU's SysTick counts 24 MHz (ETD_CLOCK_HZ). */
#include "stm32_usart.h"

#define BAUD 115200u

/* Clocks of devices, RM0041 chapter 6.3.7. */
#define RCC_APB2ENR REGISTER(0x40021018u)
#define RCC_APB2ENR_GPIOA (1u << 2)
#define RCC_APB2ENR_USART1 (1u << 14)

/* Pins 8 to 15 of port A, RM0041 chapter 7.2. */
#define GPIOA_CRH REGISTER(0x40010804u)
#define GPIOA_BSRR REGISTER(0x40010810u)
#define CRH_PA9_PA10 0xFF0u
#define CRH_PA9_FUNCTION_PA10_PULLED (0x8B0u)
#define BSRR_PA10_UP (1u << 10)

/* SysTick of the core, PM0056 chapter 4.5. */
#define SYSTICK_CTRL REGISTER(0xE000E010u)
#define SYSTICK_RELOAD REGISTER(0xE000E014u)
#define SYSTICK_VALUE REGISTER(0xE000E018u)
#define SYSTICK_ON_CPU_CLOCK 5u
#define SYSTICK_MAX 0xFFFFFFu

/* Rates that the divider of 8 MHz reaches within one percent; the rate after reset first. */
static const uint32_t bauds[] = {BAUD, 230400};

void port_start(void) {
    RCC_APB2ENR |= RCC_APB2ENR_GPIOA | RCC_APB2ENR_USART1;
    /* A device is ready two cycles after its clock starts; a read takes that long. */
    (void)RCC_APB2ENR;
    GPIOA_BSRR = BSRR_PA10_UP;
    GPIOA_CRH = (GPIOA_CRH & ~CRH_PA9_PA10) | CRH_PA9_FUNCTION_PA10_PULLED;
    stm32_usart_start(BAUD);
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
    .baud_count = sizeof bauds / sizeof bauds[0],
    .bauds = bauds,
};
