/* The UART of Arm's CMSDK, which the FPGA images of MPS2 and MPS3 have. A port that adds cmsdk_uart.c to its
 * sources defines ET_UART (its address), ET_UART_IRQ (of what it receives) and ET_UART_HZ (its clock). */
#ifndef CMSDK_UART_H
#define CMSDK_UART_H

#include <stdint.h>

void cmsdk_uart_start(void);

/* These three are for et_port; cortex_m_console sends. */
uint32_t cmsdk_uart_read(uint8_t *bytes, uint32_t size);
void cmsdk_uart_idle(void);
void cmsdk_uart_reboot(void);

#endif
