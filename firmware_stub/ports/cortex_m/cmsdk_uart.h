#ifndef CMSDK_UART_H
#define CMSDK_UART_H

#include "bare_metal.h"

void cmsdk_uart_start(void);

#endif
