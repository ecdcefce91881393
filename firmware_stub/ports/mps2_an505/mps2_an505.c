// SPDX-License-Identifier: Apache-2.0
/* Arm MPS2 with AN505 (Cortex-M33 in an IoT kit). UART 0; the tick counter is in ports/mps2/cmsdk_timer.c.
 * All devices are used at their Secure addresses, as the core starts in the Secure state. */
#include "cmsdk_uart.h"
#include "etd_npu.h"

void port_start(void) {
    cmsdk_uart_start();
}

static const etd_clock npu_clock = ETD_NPU_CLOCK_OF(ETD_CLOCK_HZ, 1u);

const etd_target port_target = {
    .board = ETD_BOARD,
    .cpu = ETD_CPU,
    .clock_name = "CMSDK timer 0",
    .clock_hz_numerator = ETD_CLOCK_HZ,
    .clock_hz_denominator = 1,
    .clock_bits = 32,
    .baud_count = CMSDK_UART_BAUDS,
    .bauds = cmsdk_uart_bauds,
    .more_clock_count = ETD_NPU_LINKED,
    .more_clocks = &npu_clock,
};
