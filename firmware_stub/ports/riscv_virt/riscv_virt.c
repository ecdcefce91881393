// SPDX-License-Identifier: Apache-2.0
/* QEMU's RISC-V "virt" machine. The low word of the cycle counter is the tick counter. */
#include "etd_npu.h"
#include "machine_riscv.h"

void port_start(void) {
    machine_start_uart();
}

static const etd_clock npu_clock = ETD_NPU_CLOCK_OF(MACHINE_HZ, 1u);

const etd_target port_target = {
    .board = ETD_BOARD,
    .cpu = "rv32imac",
    .clock_name = ETD_COUNTER,
    .clock_hz_numerator = MACHINE_HZ,
    .clock_hz_denominator = 1,
    .clock_bits = 32,
    .baud_count = MACHINE_BAUD_COUNT,
    .bauds = machine_bauds,
    .more_clock_count = ETD_NPU_LINKED,
    .more_clocks = &npu_clock,
};
