// SPDX-License-Identifier: Apache-2.0
/* Arm MPS2 with a CMSDK image (AN385, AN386, AN500). UART 0; the tick counter is in cmsdk_timer.c. */
#include "cmsdk_uart.h"
#include "etd_npu.h"

/* QEMU's MPS2 has no pins: the marker goes to UART 1, as the character 1 or 0. */
#define MARKER_UART 0x40005000u
#define MARKER_DATA REGISTER(MARKER_UART)
#define MARKER_CTRL REGISTER(MARKER_UART + 0x8u)
#define MARKER_BAUDDIV REGISTER(MARKER_UART + 0x10u)
#define MARKER_CTRL_TX 1u
#define MARKER_BAUD 921600u

void port_start(void) {
    cmsdk_uart_start();
    MARKER_BAUDDIV = ETD_CLOCK_HZ / MARKER_BAUD;
    MARKER_CTRL = MARKER_CTRL_TX;
}

void port_marker(void *context, bool high) {
    (void)context;
    MARKER_DATA = high ? '1' : '0';
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
