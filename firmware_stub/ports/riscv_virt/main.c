/* QEMU's RISC-V "virt" machine: 16550 UART, polled; the cycle counter, of which the low word is the tick
 * counter. Runs in machine mode, without firmware below it. */
#include <stdint.h>
#include <string.h>

#include "et_port.h"

#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))
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
#define FIFO_ON 1u
#define FORMAT_8_BITS 3u
#define FORMAT_DIVIDER 0x80u
#define STATE_RECEIVED 1u
#define STATE_BUFFER_FREE (1u << 5)
#define STATE_SENT (1u << 6)

#define PLIC_PRIORITY(irq) REGISTER(0x0C000000u + 4 * (irq))
#define PLIC_ENABLE REGISTER(0x0C002000u)
#define PLIC_THRESHOLD REGISTER(0x0C200000u)
#define PLIC_CLAIM REGISTER(0x0C200004u)
#define MIE_EXTERNAL (1u << 11)

#define FINISHER REGISTER(0x00100000u)
#define FINISHER_RESET 0x7777u

/* From the linker script. */
extern uint32_t bss_start[], bss_end[];

void reset(void);
_Noreturn void start(void);
_Noreturn void fault(void);
int main(void);

__attribute__((naked, section(".text.reset"))) void reset(void) {
    __asm volatile("la sp, stack_top\n"
                   "la t0, fault_entry\n"
                   "csrw mtvec, t0\n"
                   "j start\n"
                   ".balign 4\n"
                   "fault_entry:\n"
                   "la sp, stack_top\n"
                   "j fault\n");
}

_Noreturn void start(void) {
    memset(bss_start, 0, (uintptr_t)bss_end - (uintptr_t)bss_start);
    (void)main();
    fault();
}

static void start_uart(void) {
    uint32_t divider = UART_CLOCK_HZ / 16 / BAUD;
    UART_FORMAT = FORMAT_DIVIDER;
    UART_DIVIDER_LOW = (uint8_t)divider;
    UART_DIVIDER_HIGH = (uint8_t)(divider >> 8);
    UART_FORMAT = FORMAT_8_BITS;
    UART_FIFO = FIFO_ON;
    UART_INTERRUPTS = INTERRUPT_RECEIVED;
    /* Interrupts wake the CPU in idle() and are never taken: nothing disturbs an execution. */
    PLIC_PRIORITY(UART_IRQ) = 1;
    PLIC_ENABLE = 1u << UART_IRQ;
    PLIC_THRESHOLD = 0;
    __asm volatile("csrw mie, %0" ::"r"(MIE_EXTERNAL));
}

static void send(const uint8_t *bytes, uint32_t size) {
    for (uint32_t i = 0; i < size; i++) {
        while ((UART_STATE & STATE_BUFFER_FREE) == 0) {
        }
        UART_DATA = bytes[i];
    }
}

static uint32_t receive(uint8_t *bytes, uint32_t size) {
    uint32_t count = 0;
    while (count < size && (UART_STATE & STATE_RECEIVED) != 0) {
        bytes[count++] = UART_DATA;
    }
    return count;
}

static void idle(void) {
    __asm volatile("wfi");
    PLIC_CLAIM = PLIC_CLAIM;
}

static uint32_t ticks(void) {
    uint32_t value;
    __asm volatile("csrr %0, mcycle" : "=r"(value));
    return value;
}

static void restart_clock(void) {
    __asm volatile("csrw mcycleh, zero\n"
                   "csrw mcycle, zero");
}

static void reboot(void) {
    while ((UART_STATE & STATE_SENT) == 0) {
    }
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

/* A line of text, then a reset, so that a crashed board is noticed and can be used again. */
_Noreturn void fault(void) {
    /* The zero ends a frame that was being sent, or the text would be taken for a part of it. */
    char line[] = "\0fault at pc=0x????????\n";
    uint32_t pc;
    __asm volatile("csrr %0, mepc" : "=r"(pc));
    put_hex(line + sizeof line - 10, pc);
    send((const uint8_t *)line, sizeof line - 1);
    reboot();
    for (;;) {
    }
}

int main(void) {
    static const et_port port = {
        .read = receive,
        .write = send,
        .idle = idle,
        .ticks = ticks,
        .restart_clock = restart_clock,
        .reboot = reboot,
    };
    static const et_target target = {
        .board = ET_BOARD,
        .cpu = "rv32imac",
        .clock_name = "mcycle",
        .clock_hz_numerator = CYCLES_HZ,
        .clock_hz_denominator = 1,
        .clock_bits = 32,
    };
    start_uart();
    restart_clock();
    et_app_main(&port, &target);
}
