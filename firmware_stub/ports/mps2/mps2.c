// SPDX-License-Identifier: Apache-2.0
/* Arm MPS2 with a CMSDK image (AN385, AN386, AN500). UART 0; timer 0 is the tick counter. */
#include "cmsdk_uart.h"
#include "etd_npu.h"

#define TIMER_CTRL REGISTER(0x40000000u)
#define TIMER_VALUE REGISTER(0x40000004u)
#define TIMER_RELOAD REGISTER(0x40000008u)

/* The timer counts down. */
uint32_t port_ticks(void) {
    return UINT32_MAX - TIMER_VALUE;
}

void port_restart_clock(void) {
    TIMER_CTRL = 0;
    TIMER_RELOAD = UINT32_MAX;
    TIMER_VALUE = UINT32_MAX;
    TIMER_CTRL = 1;
}

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
