// SPDX-License-Identifier: Apache-2.0
/* UART (16550), interrupt controller (PLIC) and reset of QEMU's "virt" machine, which the testbench of the
 * RTL boards has, too, and what the link tells of them. A port may move all of them by ETD_DEVICES. */
#include "etd_npu.h"
#include "machine_riscv.h"

#define REGISTER_8(address) (*(volatile uint8_t *)(uintptr_t)(address))

#define UART_CLOCK_HZ 3686400u
#define BAUD 115200u
#define BAUD_COUNT 2
#define TICK_HZ 1000000000u
#define UART_IRQ 10u

#define UART_DATA REGISTER_8(ETD_DEVICES + 0x10000000u)
#define UART_INTERRUPTS REGISTER_8(ETD_DEVICES + 0x10000001u)
#define UART_FIFO REGISTER_8(ETD_DEVICES + 0x10000002u)
#define UART_FORMAT REGISTER_8(ETD_DEVICES + 0x10000003u)
#define UART_STATE REGISTER_8(ETD_DEVICES + 0x10000005u)
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

#define PLIC_PRIORITY(irq) REGISTER(ETD_DEVICES + 0x0C000000u + 4 * (irq))
#define PLIC_ENABLE REGISTER(ETD_DEVICES + 0x0C002000u)
#define PLIC_THRESHOLD REGISTER(ETD_DEVICES + 0x0C200000u)
#define PLIC_CLAIM REGISTER(ETD_DEVICES + 0x0C200004u)
#define FINISHER REGISTER(ETD_DEVICES + 0x00100000u)
#define FINISHER_RESET 0x7777u

static bool overrun;

static const uint32_t bauds[BAUD_COUNT] = {BAUD, 2 * BAUD};

void port_set_baud(uint32_t baud) {
    uint32_t divider = UART_CLOCK_HZ / 16 / baud;
    UART_FORMAT = FORMAT_DIVIDER;
    UART_DIVIDER_LOW = (uint8_t)divider;
    UART_DIVIDER_HIGH = (uint8_t)(divider >> 8);
    UART_FORMAT = FORMAT_8_BITS;
}

void machine_start_uart(void) {
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

void machine_start_interrupts(void) {
    PLIC_PRIORITY(UART_IRQ) = 1;
    PLIC_ENABLE = 1u << UART_IRQ;
    PLIC_THRESHOLD = 0;
}

void machine_interrupt(void) {
    uint32_t irq = PLIC_CLAIM;
    port_interrupt();
    PLIC_CLAIM = irq;
}

_Noreturn void core_reset(void) {
    FINISHER = FINISHER_RESET;
    for (;;) {
    }
}

static const etd_clock npu_clock = ETD_NPU_CLOCK_OF(TICK_HZ, 1u);

const etd_target port_target = {
    .board = ETD_BOARD,
    .cpu = ETD_ISA,
    .clock_name = ETD_COUNTER,
    .clock_hz_numerator = TICK_HZ,
    .clock_hz_denominator = 1,
    .clock_bits = 32,
    .baud_count = BAUD_COUNT,
    .bauds = bauds,
    .more_clock_count = ETD_NPU_LINKED,
    .more_clocks = &npu_clock,
};
