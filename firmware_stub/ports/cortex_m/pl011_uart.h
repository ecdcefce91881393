// SPDX-License-Identifier: Apache-2.0
#ifndef PL011_UART_H
#define PL011_UART_H

#include "bare_metal.h"

/* Values for port_target. */
#define PL011_UART_BAUDS 4
extern const uint32_t pl011_uart_bauds[PL011_UART_BAUDS];

/* Starts the UART. Its clock must run and its pins must be configured. */
void pl011_uart_start(void);

#endif
