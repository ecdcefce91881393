// SPDX-License-Identifier: Apache-2.0
/* Registers of the STM32F4, named as in the reference manuals RM0090 (STM32F405) and RM0390 (STM32F446),
 * which agree on them. */
#ifndef STM32F4_H
#define STM32F4_H

#include "stm32_usart.h"

/* Power control, RM0390 chapter 5. */
#define PWR_CR REGISTER(0x40007000u)
#define PWR_CSR REGISTER(0x40007004u)
#define PWR_CR_VOS_SCALE_1 (3u << 14)
#define PWR_CR_ODEN (1u << 16)
#define PWR_CR_ODSWEN (1u << 17)
#define PWR_CSR_ODRDY (1u << 16)
#define PWR_CSR_ODSWRDY (1u << 17)

/* Flash interface, RM0390 chapter 3. */
#define FLASH_ACR REGISTER(0x40023C00u)
#define FLASH_ACR_5_WAIT_STATES 5u
#define FLASH_ACR_PREFETCH_AND_CACHES (7u << 8)

/* Reset and clock control, RM0390 chapter 6. */
#define RCC_CR REGISTER(0x40023800u)
#define RCC_PLLCFGR REGISTER(0x40023804u)
#define RCC_CFGR REGISTER(0x40023808u)
#define RCC_AHB1ENR REGISTER(0x40023830u)
#define RCC_APB1ENR REGISTER(0x40023840u)
#define RCC_APB2ENR REGISTER(0x40023844u)
#define RCC_CSR REGISTER(0x40023874u)
#define RCC_CR_HSEON (1u << 16)
#define RCC_CR_HSERDY (1u << 17)
#define RCC_CR_HSEBYP (1u << 18)
#define RCC_CR_PLLON (1u << 24)
#define RCC_CR_PLLRDY (1u << 25)
#define RCC_PLLCFGR_M(divisor) (divisor)
#define RCC_PLLCFGR_N(factor) ((factor) << 6)
#define RCC_PLLCFGR_P_2 0u
#define RCC_PLLCFGR_HSE (1u << 22)
#define RCC_PLLCFGR_Q(divisor) ((divisor) << 24)
#define RCC_PLLCFGR_R(divisor) ((divisor) << 28)
#define RCC_CFGR_SW_PLL 2u
#define RCC_CFGR_SWS_MASK (3u << 2)
#define RCC_CFGR_SWS_PLL (2u << 2)
#define RCC_CFGR_PPRE1_DIV_4 (5u << 10)
#define RCC_CFGR_PPRE2_DIV_2 (4u << 13)
#define RCC_AHB1ENR_GPIO(port) (1u << (port))
#define RCC_APB1ENR_TIM2 1u
#define RCC_APB1ENR_USART2 (1u << 17)
#define RCC_APB1ENR_PWR (1u << 28)
#define RCC_APB2ENR_USART1 (1u << 4)
#define RCC_CSR_RMVF (1u << 24)
#define RCC_CSR_BORRSTF (1u << 25)
#define RCC_CSR_PINRSTF (1u << 26)
#define RCC_CSR_PORRSTF (1u << 27)
#define RCC_CSR_SFTRSTF (1u << 28)
#define RCC_CSR_IWDGRSTF (1u << 29)
#define RCC_CSR_WWDGRSTF (1u << 30)

/* GPIO, RM0390 chapter 7; port A is 0. */
#define GPIO_MODER(port) REGISTER(0x40020000u + 0x400u * (port))
#define GPIO_PUPDR(port) REGISTER(0x4002000Cu + 0x400u * (port))
#define GPIO_AFRL(port) REGISTER(0x40020020u + 0x400u * (port))
#define GPIO_MODER_FUNCTION 2u
#define GPIO_PUPDR_UP 1u

/* TIM2, 32 bits, RM0390 chapter 17. */
#define TIM2_CR1 REGISTER(0x40000000u)
#define TIM2_EGR REGISTER(0x40000014u)
#define TIM2_CNT REGISTER(0x40000024u)
#define TIM2_PSC REGISTER(0x40000028u)
#define TIM2_ARR REGISTER(0x4000002Cu)
#define TIM2_CR1_CEN 1u
#define TIM2_EGR_UG 1u

#endif
