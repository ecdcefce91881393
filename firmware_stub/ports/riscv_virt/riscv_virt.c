// SPDX-License-Identifier: Apache-2.0
/* QEMU's RISC-V "virt" machine. 16550 UART; the low word of the cycle counter is the tick counter. Runs in
 * machine mode without other firmware. */
#include <string.h>

#include "bare_metal.h"
#include "etd_npu.h"

#define REGISTER_8(address) (*(volatile uint8_t *)(uintptr_t)(address))

#define CYCLES_HZ 1000000000u
#define UART_CLOCK_HZ 3686400u
#define BAUD 115200u
#define UART_IRQ 10u

#define UART_DATA REGISTER_8(0x10000000u)
#define UART_INTERRUPTS REGISTER_8(0x10000001u)
#define UART_FIFO REGISTER_8(0x10000002u)
#define UART_FORMAT REGISTER_8(0x10000003u)
#define UART_STATE REGISTER_8(0x10000005u)
#define UART_DIVIDER_LOW UART_DATA /* with FORMAT_DIVIDER */
#define UART_DIVIDER_HIGH UART_INTERRUPTS
#define INTERRUPT_RECEIVED 1u
#define INTERRUPT_ROOM 2u
#define FIFO_ON 1u
/* Interrupts at 14 of 16 bytes, or when fewer have waited for the time of four bytes. */
#define FIFO_AT_14 0xC0u
#define FORMAT_8_BITS 3u
#define FORMAT_DIVIDER 0x80u
#define STATE_RECEIVED 1u
#define STATE_OVERRUN (1u << 1)
#define STATE_BUFFER_FREE (1u << 5)
#define STATE_SENT (1u << 6)

#define PLIC_PRIORITY(irq) REGISTER(0x0C000000u + 4 * (irq))
#define PLIC_ENABLE REGISTER(0x0C002000u)
#define PLIC_THRESHOLD REGISTER(0x0C200000u)
#define PLIC_CLAIM REGISTER(0x0C200004u)
#define MIE_EXTERNAL (1u << 11)
#define MSTATUS_MIE "8"

#define FINISHER REGISTER(0x00100000u)
#define FINISHER_RESET 0x7777u

static bool overrun;

/* From the linker script. */
extern uint32_t bss_start[], bss_end[];

void reset(void);
_Noreturn void start(void);
_Noreturn void fault(uint32_t sp, uint32_t ra);
void external_interrupt(void);

/* Vectored interrupts: number 11 (external) uses word 11 of the table, a fault word 0. No other can happen. A
 * fault is reported on a fresh stack, because the old one may be its cause. */
__attribute__((naked, section(".text.reset"))) void reset(void) {
    __asm volatile("la sp, stack_top\n"
                   "la t0, vectors + 1\n"
                   "csrw mtvec, t0\n"
                   "j start\n"
                   "fault_entry:\n"
                   "mv a0, sp\n"
                   "mv a1, ra\n"
                   "la sp, stack_top\n"
                   "j fault\n"
                   ".option push\n"
                   ".option norvc\n"
                   ".balign 256\n"
                   "vectors:\n"
                   "j fault_entry\n"
                   ".fill 10, 4, 0\n"
                   "j external_interrupt\n"
                   ".option pop\n");
}

_Noreturn void start(void) {
    port_start();
    memset(bss_start, 0, (uintptr_t)bss_end - (uintptr_t)bss_start);
    (void)main();
    core_reset();
}

static const uint32_t bauds[] = {BAUD, 2 * BAUD};

void port_set_baud(uint32_t baud) {
    uint32_t divider = UART_CLOCK_HZ / 16 / baud;
    UART_FORMAT = FORMAT_DIVIDER;
    UART_DIVIDER_LOW = (uint8_t)divider;
    UART_DIVIDER_HIGH = (uint8_t)(divider >> 8);
    UART_FORMAT = FORMAT_8_BITS;
}

void port_start(void) {
    port_set_baud(BAUD);
    UART_FIFO = FIFO_ON | FIFO_AT_14;
}

/* Reading the state clears an overrun. */
static uint32_t read_state(void) {
    uint32_t state = UART_STATE;
    overrun = overrun || (state & STATE_OVERRUN) != 0;
    return state;
}

int32_t port_receive(void) {
    if ((read_state() & STATE_RECEIVED) == 0) {
        return -1;
    }
    int32_t received = UART_DATA | (overrun ? ETD_UART_OVERRUN : 0);
    overrun = false;
    return received;
}

bool port_send(uint8_t byte) {
    if ((read_state() & STATE_BUFFER_FREE) == 0) {
        return false;
    }
    UART_DATA = byte;
    return true;
}

void port_interrupts(bool received, bool room) {
    UART_INTERRUPTS = (uint8_t)((received ? INTERRUPT_RECEIVED : 0) | (room ? INTERRUPT_ROOM : 0));
}

void port_finish_sending(void) {
    while ((read_state() & STATE_SENT) == 0) {
    }
}

void core_start_interrupts(void) {
    PLIC_PRIORITY(UART_IRQ) = 1;
    PLIC_ENABLE = 1u << UART_IRQ;
    PLIC_THRESHOLD = 0;
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
    uint32_t irq = PLIC_CLAIM;
    port_interrupt();
    PLIC_CLAIM = irq;
}

uint32_t port_ticks(void) {
    uint32_t value;
    __asm volatile("csrr %0, mcycle" : "=r"(value));
    return value;
}

void port_restart_clock(void) {
    __asm volatile("csrw mcycleh, zero\n"
                   "csrw mcycle, zero");
}

_Noreturn void core_reset(void) {
    FINISHER = FINISHER_RESET;
    for (;;) {
    }
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

static const etd_clock npu_clock = ETD_NPU_CLOCK_OF(CYCLES_HZ, 1u);

const etd_target port_target = {
    .board = ETD_BOARD,
    .cpu = "rv32imac",
    .clock_name = "mcycle",
    .clock_hz_numerator = CYCLES_HZ,
    .clock_hz_denominator = 1,
    .clock_bits = 32,
    .baud_count = sizeof bauds / sizeof bauds[0],
    .bauds = bauds,
    .more_clock_count = ETD_NPU_LINKED,
    .more_clocks = &npu_clock,
};
