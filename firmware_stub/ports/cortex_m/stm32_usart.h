// SPDX-License-Identifier: Apache-2.0
#ifndef STM32_USART_H
#define STM32_USART_H

#include "bare_metal.h"

/* Starts the USART at a rate. Its clock must run and its pins must be configured. */
void stm32_usart_start(uint32_t baud);

#endif
