// SPDX-License-Identifier: Apache-2.0
#ifndef CMSDK_UART_H
#define CMSDK_UART_H

#include "bare_metal.h"

/* Values for port_target. */
#define CMSDK_UART_BAUDS 4
extern const uint32_t cmsdk_uart_bauds[CMSDK_UART_BAUDS];

void cmsdk_uart_start(void);

#endif
