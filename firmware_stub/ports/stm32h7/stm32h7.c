// SPDX-License-Identifier: Apache-2.0
/* NUCLEO-H743ZI and -H743ZI2 (STM32H743ZI). USART 3 on PD8 (transmit) and PD9 (receive), the serial port of
 * the ST-LINK. TIM2 is the tick counter.
 *
 * The core runs at 400 MHz from the ST-LINK's 8 MHz clock, the buses at 200 and 100 MHz. Code and AXI SRAM
 * are cached. Memory that must survive a reset is in the DTCM, which is not cached, so a reset cannot lose
 * its contents. */
#include "stm32h7.h"

#define UART_HZ 100000000u
#define BAUD 115200u

static const uint32_t bauds[] = {BAUD, 230400, 460800, 921600};

/* Configure the regulator first: its register can be written once after power-on and must be written before
 * anything else changes (RM0433 chapter 6.4.1). */
static void start_power(void) {
    PWR_CR3 = PWR_CR3_LDOEN;
    while ((PWR_CSR1 & PWR_CSR1_ACTVOSRDY) == 0) {
    }
    PWR_D3CR = PWR_D3CR_VOS_SCALE_1;
    while ((PWR_D3CR & PWR_D3CR_VOSRDY) == 0) {
    }
}

/* 8 MHz * 100 / 2 = 400 MHz. */
static void start_clock(void) {
    RCC_CR |= RCC_CR_HSEBYP;
    RCC_CR |= RCC_CR_HSEON;
    while ((RCC_CR & RCC_CR_HSERDY) == 0) {
    }
    RCC_PLLCKSELR = RCC_PLLCKSELR_HSE | RCC_PLLCKSELR_M1(1u);
    RCC_PLLCFGR = RCC_PLLCFGR_RGE1_8_TO_16_MHZ | RCC_PLLCFGR_P1_ON;
    RCC_PLL1DIVR = RCC_PLL1DIVR_N(100u) | RCC_PLL1DIVR_P(2u) | RCC_PLL1DIVR_Q(2u) | RCC_PLL1DIVR_R(2u);
    RCC_CR |= RCC_CR_PLL1ON;
    while ((RCC_CR & RCC_CR_PLL1RDY) == 0) {
    }
    RCC_D1CFGR = RCC_D1CFGR_HPRE_DIV_2 | RCC_D1CFGR_D1PPRE_DIV_2;
    RCC_D2CFGR = RCC_D2CFGR_D2PPRE1_DIV_2 | RCC_D2CFGR_D2PPRE2_DIV_2;
    RCC_D3CFGR = RCC_D3CFGR_D3PPRE_DIV_2;
    FLASH_ACR = FLASH_ACR_2_WAIT_STATES | FLASH_ACR_WRHIGHFREQ_2;
    while (FLASH_ACR != (FLASH_ACR_2_WAIT_STATES | FLASH_ACR_WRHIGHFREQ_2)) {
    }
    RCC_CFGR = RCC_CFGR_SW_PLL1;
    while ((RCC_CFGR & RCC_CFGR_SWS_MASK) != RCC_CFGR_SWS_PLL1) {
    }
}

/* Without this, revision Y may read wrong data from the AXI SRAM. */
static void fix_revision_y(void) {
    if (DBGMCU_IDC < DBGMCU_IDC_REVISION_V) {
        AXI_TARG7_FN_MOD = AXI_FN_MOD_READ_ISS_OVERRIDE;
    }
}

/* Invalidates line by line, because caches have undefined contents after reset. */
static void start_caches(void) {
    ICIALLU = 0;
    CSSELR = 0; /* level 1 data cache */
    __asm volatile("dsb" ::: "memory");
    uint32_t size = CCSIDR;
    uint32_t last_set = size >> 13 & 0x7FFFu;
    uint32_t last_way = size >> 3 & 0x3FFu;
    for (uint32_t set = 0; set <= last_set; set++) {
        for (uint32_t way = 0; way <= last_way; way++) {
            DCISW = way << 30 | set << 5; /* four ways, lines of 32 bytes */
        }
    }
    __asm volatile("dsb" ::: "memory");
    CCR |= CCR_IC | CCR_DC;
    __asm volatile("dsb\nisb" ::: "memory");
}

/* The rate can be changed only while the UART is disabled. Interrupt enables are preserved. */
void port_set_baud(uint32_t baud) {
    uint32_t control = USART_CR1;
    USART_CR1 = 0;
    USART_BRR = (UART_HZ + baud / 2) / baud;
    USART_CR1 = control | USART_CR1_ON;
}

static void start_uart(void) {
    RCC_AHB4ENR |= RCC_AHB4ENR_GPIOD;
    RCC_APB1LENR |= RCC_APB1LENR_USART3 | RCC_APB1LENR_TIM2;
    /* A device is ready two cycles after its clock starts; a read takes that long. */
    (void)RCC_APB1LENR;
    GPIOD_AFRH = (GPIOD_AFRH & ~GPIOD_AFRH_MASK) | GPIOD_AFRH_USART3;
    GPIOD_PUPDR = (GPIOD_PUPDR & ~GPIOD_PUPDR_MASK) | GPIOD_PUPDR_UP_PD9;
    GPIOD_MODER = (GPIOD_MODER & ~GPIOD_MODER_MASK) | GPIOD_MODER_FUNCTIONS;
    port_set_baud(BAUD);
}

void port_start(void) {
    fix_revision_y();
    start_power();
    start_clock();
    start_caches();
    start_uart();
}

/* An overrun is cleared even without a byte, because it raises the receive interrupt, too (RM0433 chapter
 * 48.6), which would be taken again and again. */
int32_t port_receive(void) {
    static bool overrun; /* not yet reported */
    uint32_t state = USART_ISR;
    if ((state & USART_ISR_ORE) != 0) {
        USART_ICR = USART_ICR_ORECF;
        overrun = true;
    }
    if ((state & USART_ISR_RXFNE) == 0) {
        return -1;
    }
    int32_t received = (int32_t)(USART_RDR & 0xFFu) | (overrun ? ETD_UART_OVERRUN : 0);
    overrun = false;
    return received;
}

bool port_send(uint8_t byte) {
    if ((USART_ISR & USART_ISR_TXFNF) == 0) {
        return false;
    }
    USART_TDR = byte;
    return true;
}

void port_interrupts(bool received, bool room) {
    USART_CR1 = USART_CR1_ON | (received ? USART_CR1_RXFNEIE : 0) | (room ? USART_CR1_TXFNFIE : 0);
}

void port_finish_sending(void) {
    while ((USART_ISR & USART_ISR_TC) == 0) {
    }
}

uint32_t port_ticks(void) {
    return TIM2_CNT;
}

void port_restart_clock(void) {
    TIM2_CR1 = 0;
    TIM2_PSC = 0;
    TIM2_ARR = UINT32_MAX;
    /* Loads these registers and clears the prescaler. */
    TIM2_EGR = TIM2_EGR_UG;
    TIM2_CNT = 0;
    TIM2_CR1 = TIM2_CR1_CEN;
}

/* Every reset pulls the pin, so the pin is the cause only if no other flag is set. */
uint32_t port_reset_reason(void) {
    uint32_t flags = RCC_RSR;
    RCC_RSR = flags | RCC_RSR_RMVF;
    uint32_t reason = ETD_POSTMORTEM_REASON_KNOWN;
    reason |= (flags & (RCC_RSR_PORRSTF | RCC_RSR_BORRSTF)) != 0 ? ETD_POSTMORTEM_REASON_POWER : 0u;
    reason |= (flags & (RCC_RSR_IWDG1RSTF | RCC_RSR_WWDG1RSTF)) != 0 ? ETD_POSTMORTEM_REASON_WATCHDOG : 0u;
    reason |= (flags & RCC_RSR_SFTRSTF) != 0 ? ETD_POSTMORTEM_REASON_SOFTWARE : 0u;
    if (reason != ETD_POSTMORTEM_REASON_KNOWN) {
        return reason;
    }
    return (flags & RCC_RSR_PINRSTF) != 0 ? reason | ETD_POSTMORTEM_REASON_PIN : 0u;
}

const etd_target port_target = {
    .board = ETD_BOARD,
    .cpu = ETD_CPU,
    .clock_name = "TIM2",
    .clock_hz_numerator = 200000000u,
    .clock_hz_denominator = 1,
    .clock_bits = 32,
    .baud_count = sizeof bauds / sizeof bauds[0],
    .bauds = bauds,
};
