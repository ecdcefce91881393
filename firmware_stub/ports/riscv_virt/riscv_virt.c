// SPDX-License-Identifier: Apache-2.0
/* QEMU's RISC-V "virt" machine. The low word of the cycle counter is the tick counter. */
#include "machine_riscv.h"

void port_start(void) {
    machine_start_uart();
}
