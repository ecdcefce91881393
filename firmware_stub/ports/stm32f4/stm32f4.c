// SPDX-License-Identifier: Apache-2.0
/* STM32F4 with TIM2 as the tick counter. port.cmake selects one of two boards:
 *
 * NUCLEO-F446RE: USART 2 on PA2 (transmit) and PA3 (receive), the serial port of the ST-LINK. 180 MHz from
 * the ST-LINK's 8 MHz clock.
 *
 * Netduino Plus 2 (STM32F405): USART 1 on PB6 (transmit) and PB7 (receive), labeled SCL and SDA on the
 * header. Runs from the oscillator that is active after reset, because QEMU has no other. */
#include "stm32f4.h"

#define BAUD 115200u

#ifdef ETD_NUCLEO_F446RE
#define UART_CLOCK RCC_APB1ENR
#define UART_CLOCK_ON RCC_APB1ENR_USART2
#define PINS 0u /* port A */
#define PIN_SEND 2u
static const uint32_t bauds[] = {BAUD, 230400, 460800, 921600};
#else
#define UART_CLOCK RCC_APB2ENR
#define UART_CLOCK_ON RCC_APB2ENR_USART1
#define PINS 1u /* port B */
#define PIN_SEND 6u
static const uint32_t bauds[] = {BAUD, 230400, 460800};
#endif

#define FUNCTION_USART 7u

/* Fields of the two pins, which are adjacent: transmit, then receive. */
#define TWO(bits, value) ((value) << (bits) * PIN_SEND | (value) << (bits) * (PIN_SEND + 1))

#ifdef ETD_NUCLEO_F446RE
/* 8 MHz / 4 * 180 / 2 = 180 MHz, which needs the over-drive mode. The bus of USART 2 and TIM2 runs at a
 * quarter of that, and TIM2 at twice the bus clock, 90 MHz (RM0390 chapters 5.1.4 and 6.2). */
static void start_clock(void) {
    RCC_APB1ENR |= RCC_APB1ENR_PWR;
    (void)RCC_APB1ENR;
    PWR_CR |= PWR_CR_VOS_SCALE_1;
    RCC_CR |= RCC_CR_HSEBYP;
    RCC_CR |= RCC_CR_HSEON;
    while ((RCC_CR & RCC_CR_HSERDY) == 0) {
    }
    RCC_PLLCFGR = RCC_PLLCFGR_M(4u) | RCC_PLLCFGR_N(180u) | RCC_PLLCFGR_P_2 | RCC_PLLCFGR_HSE |
                  RCC_PLLCFGR_Q(8u) | RCC_PLLCFGR_R(2u);
    RCC_CR |= RCC_CR_PLLON;
    PWR_CR |= PWR_CR_ODEN;
    while ((PWR_CSR & PWR_CSR_ODRDY) == 0) {
    }
    PWR_CR |= PWR_CR_ODSWEN;
    while ((PWR_CSR & PWR_CSR_ODSWRDY) == 0) {
    }
    while ((RCC_CR & RCC_CR_PLLRDY) == 0) {
    }
    FLASH_ACR = FLASH_ACR_5_WAIT_STATES | FLASH_ACR_PREFETCH_AND_CACHES;
    while ((FLASH_ACR & 15u) != FLASH_ACR_5_WAIT_STATES) {
    }
    RCC_CFGR = RCC_CFGR_PPRE1_DIV_4 | RCC_CFGR_PPRE2_DIV_2;
    RCC_CFGR = RCC_CFGR_PPRE1_DIV_4 | RCC_CFGR_PPRE2_DIV_2 | RCC_CFGR_SW_PLL;
    while ((RCC_CFGR & RCC_CFGR_SWS_MASK) != RCC_CFGR_SWS_PLL) {
    }
}

/* Every reset pulls the pin, so the pin is the cause only if no other flag is set. */
uint32_t port_reset_reason(void) {
    uint32_t flags = RCC_CSR;
    RCC_CSR = flags | RCC_CSR_RMVF;
    uint32_t reason = ETD_POSTMORTEM_REASON_KNOWN;
    reason |= (flags & (RCC_CSR_PORRSTF | RCC_CSR_BORRSTF)) != 0 ? ETD_POSTMORTEM_REASON_POWER : 0u;
    reason |= (flags & (RCC_CSR_IWDGRSTF | RCC_CSR_WWDGRSTF)) != 0 ? ETD_POSTMORTEM_REASON_WATCHDOG : 0u;
    reason |= (flags & RCC_CSR_SFTRSTF) != 0 ? ETD_POSTMORTEM_REASON_SOFTWARE : 0u;
    if (reason != ETD_POSTMORTEM_REASON_KNOWN) {
        return reason;
    }
    return (flags & RCC_CSR_PINRSTF) != 0 ? reason | ETD_POSTMORTEM_REASON_PIN : 0u;
}
#else
static void start_clock(void) {
}
#endif

void port_start(void) {
    start_clock();
    RCC_AHB1ENR |= RCC_AHB1ENR_GPIO(PINS);
    UART_CLOCK |= UART_CLOCK_ON;
    /* A device is ready two cycles after its clock starts; a read takes that long. */
    (void)UART_CLOCK;
    GPIO_AFRL(PINS) = (GPIO_AFRL(PINS) & ~TWO(4, 15u)) | TWO(4, FUNCTION_USART);
    GPIO_PUPDR(PINS) = (GPIO_PUPDR(PINS) & ~TWO(2, 3u)) | GPIO_PUPDR_UP << 2 * (PIN_SEND + 1);
    GPIO_MODER(PINS) = (GPIO_MODER(PINS) & ~TWO(2, 3u)) | TWO(2, GPIO_MODER_FUNCTION);
    stm32_usart_start(BAUD);
}

uint32_t port_ticks(void) {
    return TIM2_CNT;
}

void port_restart_clock(void) {
    RCC_APB1ENR |= RCC_APB1ENR_TIM2;
    (void)RCC_APB1ENR;
    TIM2_CR1 = 0;
    TIM2_PSC = 0;
    TIM2_ARR = UINT32_MAX;
    /* Loads these registers and clears the prescaler. */
    TIM2_EGR = TIM2_EGR_UG;
    TIM2_CNT = 0;
    TIM2_CR1 = TIM2_CR1_CEN;
}

const etd_target port_target = {
    .board = ETD_BOARD,
    .cpu = ETD_CPU,
    .clock_name = "TIM2",
    .clock_hz_numerator = ETD_TIMER_HZ,
    .clock_hz_denominator = 1,
    .clock_bits = 32,
    .baud_count = sizeof bauds / sizeof bauds[0],
    .bauds = bauds,
};
