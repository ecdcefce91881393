// SPDX-License-Identifier: Apache-2.0
/* What start-up code, devices and ports of RISC-V machines share. port.cmake defines ETD_COUNTER, the name of
 * the CSR that counts ticks ("mcycle" or "minstret"), and ETD_DEVICES, the offset of all device addresses. */
#ifndef MACHINE_RISCV_H
#define MACHINE_RISCV_H

#include "bare_metal.h"

void machine_start_uart(void);
void machine_start_interrupts(void);

/* Optional: empties the caches. Called when the clock is restarted, so that a run starts with the same
 * contents whatever came before it. */
void machine_empty_caches(void) __attribute__((weak));

/* Serves the UART's interrupt. */
void machine_interrupt(void);

#endif
