// SPDX-License-Identifier: Apache-2.0
/* Start-up, faults and counters of RISC-V cores in machine mode, without other firmware. */
#include <stddef.h>

#include "machine_riscv.h"

#define MIE_EXTERNAL (1u << 11)
#define MSTATUS_MIE "8"

/* From the linker script. */
extern uint32_t bss_start[], bss_end[];

void reset(void);
_Noreturn void start(void);
_Noreturn void fault(uint32_t sp, uint32_t ra);
void external_interrupt(void);

/* Vectored interrupts: number 11 (external) uses word 11 of the table, a fault word 0. No other can happen.
 * Cores without vectored mode use word 0 for both, so it looks at the sign of mcause. A fault is reported on
 * a fresh stack, because the old one may be its cause. */
__attribute__((naked, section(".reset"))) void reset(void) {
    __asm volatile("la sp, stack_top\n"
                   "la t0, vectors + 1\n"
                   "csrw mtvec, t0\n"
                   "j start\n"
                   "trap_entry:\n"
                   "csrw mscratch, t0\n"
                   "csrr t0, mcause\n"
                   "bgez t0, fault_entry\n"
                   "csrr t0, mscratch\n"
                   "j external_interrupt\n"
                   "fault_entry:\n"
                   "mv a0, sp\n"
                   "mv a1, ra\n"
                   "la sp, stack_top\n"
                   "j fault\n"
                   ".option push\n"
                   ".option norvc\n"
                   ".balign 256\n"
                   "vectors:\n"
                   "j trap_entry\n"
                   ".fill 10, 4, 0\n"
                   "j external_interrupt\n"
                   ".option pop\n");
}

/* By words, eight at a time: byte by byte, as the C library's memset does it, megabytes of buffers would take
 * most of the time of a start on a simulated core. The linker script aligns both ends to 32 bytes. */
static void clear_bss(void) {
    volatile uint32_t *word = bss_start;
    while (word != bss_end) {
        word[0] = 0;
        word[1] = 0;
        word[2] = 0;
        word[3] = 0;
        word[4] = 0;
        word[5] = 0;
        word[6] = 0;
        word[7] = 0;
        word += 8;
    }
}

_Noreturn void start(void) {
    port_start();
    clear_bss();
    (void)main();
    core_reset();
}

void core_start_interrupts(void) {
    machine_start_interrupts();
    __asm volatile("csrw mie, %0" ::"r"(MIE_EXTERNAL));
}

void core_mask_interrupts(bool on) {
    if (on) {
        __asm volatile("csrci mstatus, " MSTATUS_MIE ::: "memory");
    } else {
        __asm volatile("csrsi mstatus, " MSTATUS_MIE ::: "memory");
    }
}

void core_sleep(void) {
    __asm volatile("wfi" ::: "memory");
}

__attribute__((interrupt("machine"))) void external_interrupt(void) {
    machine_interrupt();
}

uint32_t port_ticks(void) {
    uint32_t value;
    __asm volatile("csrr %0, " ETD_COUNTER : "=r"(value));
    return value;
}

void port_restart_clock(void) {
    if (machine_empty_caches != NULL) {
        machine_empty_caches();
    }
    __asm volatile("csrw " ETD_COUNTER "h, zero\n"
                   "csrw " ETD_COUNTER ", zero");
}

static void put_hex(char *at, uint32_t value) {
    for (int digit = 7; digit >= 0; digit--) {
        at[digit] = "0123456789abcdef"[value & 15u];
        value >>= 4;
    }
}

static void set(etd_fault *kept, uint32_t number, uint32_t value) {
    kept->registers[number] = value;
    kept->known |= 1u << number;
}

#define READ_CSR(name, value) __asm volatile("csrr %0, " name : "=r"(value))

/* Prints a line of text, then resets, so that a crash is visible and the board stays usable. */
_Noreturn void fault(uint32_t sp, uint32_t ra) {
    /* The NUL ends a frame that was being sent; otherwise the text would become part of it. */
    char line[] = "\0fault at pc=0x????????\n";
    etd_fault kept = {.kind = ETD_POSTMORTEM_FAULT_RISCV};
    uint32_t pc, value, status;
    READ_CSR("mcause", kept.number);
    READ_CSR("mepc", pc);
    READ_CSR("mtval", value);
    READ_CSR("mstatus", status);
    set(&kept, ETD_POSTMORTEM_RISCV_PC, pc);
    set(&kept, ETD_POSTMORTEM_RISCV_RA, ra);
    set(&kept, ETD_POSTMORTEM_RISCV_SP, sp);
    set(&kept, ETD_POSTMORTEM_RISCV_TVAL, value);
    set(&kept, ETD_POSTMORTEM_RISCV_STATUS, status);
    etd_app_fault(&kept);
    put_hex(line + sizeof line - 10, pc);
    port_console((const uint8_t *)line, sizeof line - 1);
    port_finish_sending();
    core_reset();
}
