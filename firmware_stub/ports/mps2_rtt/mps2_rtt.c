// SPDX-License-Identifier: Apache-2.0
/* Arm MPS2 (AN385) without a UART: the link goes through rings that a debug probe reads and writes. */
#include "bare_metal.h"
#include "etd_npu.h"
#include "etd_rtt.h"

#define UP_SIZE 4096u
#define DOWN_SIZE 4096u

/* Hosts look for this symbol to find the control block without a search. */
etd_rtt _SEGGER_RTT;
static uint8_t up[UP_SIZE];
static uint8_t down[DOWN_SIZE];

void port_start(void) {
}

void port_interrupt(void) {
}

/* Text after a fault is lost if the ring is full, because nobody may be reading. */
void port_console(const uint8_t *bytes, uint32_t size) {
    (void)etd_rtt_put(&_SEGGER_RTT, bytes, size);
}

void port_finish_sending(void) {
}

static uint32_t read(void *context, uint8_t *bytes, uint32_t size) {
    (void)context;
    return etd_rtt_read(&_SEGGER_RTT, bytes, size);
}

static void write(void *context, const uint8_t *bytes, uint32_t size) {
    (void)context;
    etd_rtt_write(&_SEGGER_RTT, bytes, size);
}

/* A host that writes to memory wakes nobody. */
static void idle(void *context) {
    (void)context;
}

static void reboot(void *context) {
    (void)context;
    core_reset();
}

static const etd_clock npu_clock = ETD_NPU_CLOCK_OF(ETD_CLOCK_HZ, 1u);

const etd_target port_target = {
    .board = ETD_BOARD,
    .cpu = ETD_CPU,
    .clock_name = "CMSDK timer 0",
    .clock_hz_numerator = ETD_CLOCK_HZ,
    .clock_hz_denominator = 1,
    .clock_bits = 32,
    .more_clock_count = ETD_NPU_LINKED,
    .more_clocks = &npu_clock,
};

int main(void) {
    static const etd_port port = {
        .read = read,
        .write = write,
        .idle = idle,
        .ticks = port_ticks_of,
        .restart_clock = port_restart_clock_of,
        .reboot = reboot,
        .stack_bottom = stack_bottom,
        .stack_top = stack_top,
    };
    etd_rtt_init(&_SEGGER_RTT, up, sizeof up, down, sizeof down);
    port_restart_clock();
    etd_app_main(&port, &port_target);
}
