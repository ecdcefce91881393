// SPDX-License-Identifier: Apache-2.0
/* Arm MPS3 with AN547. UART 0; the system counter, read through system timer 0, is the tick counter. All
 * devices are used at their Secure addresses. */
#include "cmsdk_uart.h"
#include "etd_npu.h"

#define COUNTER_CTRL REGISTER(0x58100000u)
#define COUNTER_LOW REGISTER(0x58100008u)
#define COUNTER_HIGH REGISTER(0x5810000Cu)
#define COUNTER_CTRL_ON 1u
#define TIMER_COUNT_LOW REGISTER(0x58000000u)

uint32_t port_ticks(void) {
    return TIMER_COUNT_LOW;
}

/* The counter has 64 bits and can be written only while it is stopped. */
void port_restart_clock(void) {
    COUNTER_CTRL = 0;
    COUNTER_LOW = 0;
    COUNTER_HIGH = 0;
    COUNTER_CTRL = COUNTER_CTRL_ON;
}

void port_start(void) {
    cmsdk_uart_start();
}

static const etd_clock npu_clock = ETD_NPU_CLOCK_OF(ETD_CLOCK_HZ, 1u);

const etd_target port_target = {
    .board = ETD_BOARD,
    .cpu = ETD_CPU,
    .clock_name = "system counter",
    .clock_hz_numerator = ETD_CLOCK_HZ,
    .clock_hz_denominator = 1,
    .clock_bits = 32,
    .baud_count = CMSDK_UART_BAUDS,
    .bauds = cmsdk_uart_bauds,
    .more_clock_count = ETD_NPU_LINKED,
    .more_clocks = &npu_clock,
};
