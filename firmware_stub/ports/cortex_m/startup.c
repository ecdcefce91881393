/* From reset to main, and what becomes of a fault: a line of text, then a reset, so that a crashed board is
 * noticed and can be used again. */
#include <stddef.h>
#include <string.h>

#include "bare_metal.h"

#define AIRCR 0xE000ED0Cu
#define AIRCR_RESET 0x05FA0004u /* the key, and SYSRESETREQ */

#define NVIC_ENABLE(irq) REGISTER(0xE000E100u + (irq) / 32u * 4u)
#define FIRST_IRQ 16

#define CPACR 0xE000ED88u
#define CPACR_FPU_ON (15u << 20)

#define MPU_TYPE 0xE000ED90u
#define MPU_CTRL 0xE000ED94u
#define MPU_RBAR 0xE000ED9Cu
#define MPU_RASR 0xE000EDA0u
#define MPU_CTRL_ON 5u     /* outside of regions, all as without an MPU */
#define MPU_RBAR_FIRST 16u /* the address given is that of region 0 */
#define MPU_RASR_NO_ACCESS_16K (13u << 1 | 1u)
#define GUARD_SIZE 0x4000u

/* What the CPU pushes at an exception; the link register and the address that faulted are among it. */
#define FRAME_WORDS 8
#define FRAME_PC 6

/* From the linker script. */
extern uint32_t stack_bottom[], stack_top[], data_start[], data_end[], bss_start[], bss_end[];
extern const uint32_t data_load[];

_Noreturn void reset(void);
int *__errno(void);
void fault(void);
_Noreturn void report_fault(const uint32_t *frame);

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[] = {
    (uintptr_t)stack_top,
    (uintptr_t)reset,
    (uintptr_t)fault, /* NMI; nothing raises it */
    (uintptr_t)fault, /* every other fault escalates to HardFault, because none is enabled */
    [FIRST_IRQ + ET_UART_IRQ] = (uintptr_t)port_interrupt,
#ifdef ET_UART_SEND_IRQ
    [FIRST_IRQ + ET_UART_SEND_IRQ] = (uintptr_t)port_interrupt,
#endif
};

static void start_fpu(void) {
#ifdef __ARM_FP
    REGISTER(CPACR) |= CPACR_FPU_ON;
    __asm volatile("dsb\nisb" ::: "memory");
#endif
}

/* Forbids what lies below the stack. Not every machine faults there by itself: QEMU's MPS2 does not. */
#ifdef __ARM_ARCH_8M_MAIN__
static void guard_stack(void) {
    __asm volatile("msr msplim, %0" ::"r"(stack_bottom));
}
#else
static void guard_stack(void) {
    if (REGISTER(MPU_TYPE) == 0) {
        return;
    }
    REGISTER(MPU_RBAR) = ((uintptr_t)stack_bottom - GUARD_SIZE) | MPU_RBAR_FIRST;
    REGISTER(MPU_RASR) = MPU_RASR_NO_ACCESS_16K;
    REGISTER(MPU_CTRL) = MPU_CTRL_ON;
    __asm volatile("dsb\nisb" ::: "memory");
}
#endif

_Noreturn void reset(void) {
    start_fpu();
    guard_stack();
    port_start();
    memcpy(data_start, data_load, (uintptr_t)data_end - (uintptr_t)data_start);
    memset(bss_start, 0, (uintptr_t)bss_end - (uintptr_t)bss_start);
    (void)main();
    core_reset();
}

void core_start_interrupts(void) {
    NVIC_ENABLE(ET_UART_IRQ) = 1u << ET_UART_IRQ % 32u;
#ifdef ET_UART_SEND_IRQ
    NVIC_ENABLE(ET_UART_SEND_IRQ) = 1u << ET_UART_SEND_IRQ % 32u;
#endif
}

void core_mask_interrupts(bool on) {
    if (on) {
        __asm volatile("cpsid i" ::: "memory");
    } else {
        __asm volatile("cpsie i" ::: "memory");
    }
}

void core_sleep(void) {
    __asm volatile("wfi" ::: "memory");
}

/* Where libm leaves error numbers, which nobody reads. newlib's own place for them comes with 1 KiB of state
 * for streams. */
int *__errno(void) {
    static int number;
    return &number;
}

_Noreturn void core_reset(void) {
    __asm volatile("dsb" ::: "memory");
    REGISTER(AIRCR) = AIRCR_RESET;
    for (;;) {
    }
}

/* The stack may be what broke: report on a fresh one. */
__attribute__((naked)) void fault(void) {
    __asm volatile("mov r0, sp\n"
                   "ldr r1, =stack_top\n"
                   "mov sp, r1\n"
                   "ldr r1, =report_fault\n"
                   "bx r1\n"
                   ".ltorg\n");
}

static void put_hex(char *at, uint32_t value) {
    for (int digit = 7; digit >= 0; digit--) {
        at[digit] = "0123456789abcdef"[value & 15u];
        value >>= 4;
    }
}

_Noreturn void report_fault(const uint32_t *frame) {
    /* The zero ends a frame that was being sent, or the text would be taken for a part of it. */
    static const char text[] = "\0hard fault at pc=0x????????\n";
    char line[sizeof text];
    for (size_t i = 0; i < sizeof text; i++) {
        line[i] = text[i];
    }
    if (frame >= stack_bottom && frame + FRAME_WORDS <= stack_top) {
        put_hex(line + sizeof text - 10, frame[FRAME_PC]);
    }
    port_console((const uint8_t *)line, sizeof text - 1);
    port_finish_sending();
    core_reset();
}
