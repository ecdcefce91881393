// SPDX-License-Identifier: Apache-2.0
/* Real cores under Verilator, with the testbench in rtl/. It has the devices of QEMU's "virt" machine, so
 * images also run there. The low word of the cycle or instruction counter is the tick counter. */
#include "machine_riscv.h"

void port_start(void) {
    machine_start_uart();
#ifdef ETD_VEXRISCV
    __asm volatile("csrw 0xBC0, %0" ::"r"(1u)); /* mask of its external interrupts */
#else
    __asm volatile("csrw 0x320, zero"); /* mcountinhibit: CV32E40P does not count after a reset */
#endif
}

#ifdef ETD_VEXRISCV
/* VexRiscv's own instruction for data, FENCE.I for instructions. Data are written through, so nothing is
 * lost. */
void machine_empty_caches(void) {
    __asm volatile(".word 0x0000500F\n"
                   ".word 0x0000100F" ::
                       : "memory");
}
#endif
