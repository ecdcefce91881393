// SPDX-License-Identifier: Apache-2.0
/* Registers of the STM32H743, named as in the reference manual RM0433, and of its core, named as in the
 * Armv7-M Architecture Reference Manual. */
#ifndef STM32H7_H
#define STM32H7_H

#include "bare_metal.h"

/* Power control, RM0433 chapter 6. */
#define PWR_CSR1 REGISTER(0x58024804u)
#define PWR_CR3 REGISTER(0x5802480Cu)
#define PWR_D3CR REGISTER(0x58024818u)
#define PWR_CSR1_ACTVOSRDY (1u << 13)
#define PWR_CR3_LDOEN (1u << 1)
#define PWR_D3CR_VOSRDY (1u << 13)
#define PWR_D3CR_VOS_SCALE_1 (3u << 14)

/* Flash interface, chapter 4. */
#define FLASH_ACR REGISTER(0x52002000u)
#define FLASH_ACR_2_WAIT_STATES 2u
#define FLASH_ACR_WRHIGHFREQ_2 (2u << 4)

/* Reset and clock control, chapter 8. */
#define RCC_CR REGISTER(0x58024400u)
#define RCC_CFGR REGISTER(0x58024410u)
#define RCC_D1CFGR REGISTER(0x58024418u)
#define RCC_D2CFGR REGISTER(0x5802441Cu)
#define RCC_D3CFGR REGISTER(0x58024420u)
#define RCC_PLLCKSELR REGISTER(0x58024428u)
#define RCC_PLLCFGR REGISTER(0x5802442Cu)
#define RCC_PLL1DIVR REGISTER(0x58024430u)
#define RCC_RSR REGISTER(0x580244D0u)
#define RCC_AHB4ENR REGISTER(0x580244E0u)
#define RCC_APB1LENR REGISTER(0x580244E8u)
#define RCC_CR_HSEON (1u << 16)
#define RCC_CR_HSERDY (1u << 17)
#define RCC_CR_HSEBYP (1u << 18)
#define RCC_CR_PLL1ON (1u << 24)
#define RCC_CR_PLL1RDY (1u << 25)
#define RCC_CFGR_SW_PLL1 3u
#define RCC_CFGR_SWS_MASK (7u << 3)
#define RCC_CFGR_SWS_PLL1 (3u << 3)
#define RCC_D1CFGR_HPRE_DIV_2 8u
#define RCC_D1CFGR_D1PPRE_DIV_2 (4u << 4)
#define RCC_D2CFGR_D2PPRE1_DIV_2 (4u << 4)
#define RCC_D2CFGR_D2PPRE2_DIV_2 (4u << 8)
#define RCC_D3CFGR_D3PPRE_DIV_2 (4u << 4)
#define RCC_PLLCKSELR_HSE 2u
#define RCC_PLLCKSELR_M1(divisor) ((divisor) << 4)
#define RCC_PLLCFGR_RGE1_8_TO_16_MHZ (3u << 2)
#define RCC_PLLCFGR_P1_ON (1u << 16)
#define RCC_PLL1DIVR_N(factor) ((factor) - 1u)
#define RCC_PLL1DIVR_P(divisor) (((divisor) - 1u) << 9)
#define RCC_PLL1DIVR_Q(divisor) (((divisor) - 1u) << 16)
#define RCC_PLL1DIVR_R(divisor) (((divisor) - 1u) << 24)
#define RCC_AHB4ENR_GPIOD (1u << 3)
#define RCC_APB1LENR_TIM2 1u
#define RCC_APB1LENR_USART3 (1u << 18)
#define RCC_RSR_RMVF (1u << 16)
#define RCC_RSR_BORRSTF (1u << 21)
#define RCC_RSR_PINRSTF (1u << 22)
#define RCC_RSR_PORRSTF (1u << 23)
#define RCC_RSR_SFTRSTF (1u << 24)
#define RCC_RSR_IWDG1RSTF (1u << 26)
#define RCC_RSR_WWDG1RSTF (1u << 28)

/* Pins 8 and 9 of port D, chapter 11. */
#define GPIOD_MODER REGISTER(0x58020C00u)
#define GPIOD_PUPDR REGISTER(0x58020C0Cu)
#define GPIOD_AFRH REGISTER(0x58020C24u)
#define GPIOD_MODER_MASK (15u << 16)
#define GPIOD_MODER_FUNCTIONS (10u << 16)
#define GPIOD_PUPDR_MASK (15u << 16)
#define GPIOD_PUPDR_UP_PD9 (1u << 18)
#define GPIOD_AFRH_MASK 0xFFu
#define GPIOD_AFRH_USART3 0x77u

/* USART 3 with FIFOs of 16 bytes, chapter 48. */
#define USART_CR1 REGISTER(0x40004800u)
#define USART_BRR REGISTER(0x4000480Cu)
#define USART_ISR REGISTER(0x4000481Cu)
#define USART_ICR REGISTER(0x40004820u)
#define USART_RDR REGISTER(0x40004824u)
#define USART_TDR REGISTER(0x40004828u)
#define USART_CR1_ON (1u << 29 | 1u << 3 | 1u << 2 | 1u) /* FIFOEN, TE, RE, UE */
#define USART_CR1_RXFNEIE (1u << 5)
#define USART_CR1_TXFNFIE (1u << 7)
#define USART_ISR_ORE (1u << 3)
#define USART_ISR_RXFNE (1u << 5)
#define USART_ISR_TC (1u << 6)
#define USART_ISR_TXFNF (1u << 7)
#define USART_ICR_ORECF (1u << 3)

/* TIM2, 32 bits, chapter 39. */
#define TIM2_CR1 REGISTER(0x40000000u)
#define TIM2_EGR REGISTER(0x40000014u)
#define TIM2_CNT REGISTER(0x40000024u)
#define TIM2_PSC REGISTER(0x40000028u)
#define TIM2_ARR REGISTER(0x4000002Cu)
#define TIM2_CR1_CEN 1u
#define TIM2_EGR_UG 1u

/* Chip revision, chapter 60, and the workaround for revision Y (erratum 2.2.9 in ES0392). */
#define DBGMCU_IDC REGISTER(0x5C001000u)
#define DBGMCU_IDC_REVISION_V 0x20000000u
#define AXI_TARG7_FN_MOD REGISTER(0x51008108u)
#define AXI_FN_MOD_READ_ISS_OVERRIDE 1u

/* The caches of the core, Armv7-M B2.2 and B3.2. */
#define CCR REGISTER(0xE000ED14u)
#define CCSIDR REGISTER(0xE000ED80u)
#define CSSELR REGISTER(0xE000ED84u)
#define ICIALLU REGISTER(0xE000EF50u)
#define DCISW REGISTER(0xE000EF60u)
#define CCR_DC (1u << 16)
#define CCR_IC (1u << 17)

#endif
