// SPDX-License-Identifier: Apache-2.0
/* Start-up from reset to main, and fault handling: prints a line of text, then resets, so that a crash is
 * visible and the board stays usable. */
#include <stddef.h>
#include <string.h>

#include "bare_metal.h"

#define AIRCR 0xE000ED0Cu
#define AIRCR_RESET 0x05FA0004u /* the key and SYSRESETREQ */

#define NVIC_ENABLE(irq) REGISTER(0xE000E100u + (irq) / 32u * 4u)
#define FIRST_IRQ 16

#define VTOR 0xE000ED08u
#define CPACR 0xE000ED88u
#define CPACR_FPU_ON (15u << 20)

#define MPU_TYPE 0xE000ED90u
#define MPU_CTRL 0xE000ED94u
#define MPU_RBAR 0xE000ED9Cu
#define MPU_RASR 0xE000EDA0u
#define MPU_CTRL_ON 5u     /* default memory map outside of regions */
#define MPU_RBAR_FIRST 16u /* selects region 0 for the given address */
#define MPU_RASR_NO_ACCESS_16K (13u << 1 | 1u)
#define GUARD_SIZE 0x4000u

/* The MPU of Armv8-M (DDI 0553, D1.2.166 and following). */
#define MPU_RNR 0xE000ED98u
#define MPU_RLAR 0xE000EDA0u
#define MPU_MAIR0 0xE000EDC0u
#define MPU_RBAR_READ_ONLY (2u << 1 | 1u) /* for privileged code; never executed */
#define MPU_RLAR_UNIT 32u                 /* the limit is the address of the last 32 bytes */
#define MPU_RLAR_ON 1u

#define CFSR 0xE000ED28u /* fault status and addresses; not on Armv6-M */
#define HFSR 0xE000ED2Cu
#define MMFAR 0xE000ED34u
#define BFAR 0xE000ED38u
#define CFSR_MMFAR_VALID (1u << 7)
#define CFSR_BFAR_VALID (1u << 15)

/* Registers pushed by the CPU at an exception: R0 to R3, R12, LR, PC and XPSR, in the order of a fault's
 * first registers. */
#define FRAME_WORDS 8u
#define FRAME_KNOWN ((1u << FRAME_WORDS) - 1u)
#define FPU_WORDS 18u
#define EXC_RETURN_NO_FPU (1u << 4)
#define XPSR_REALIGNED (1u << 9)

/* From the linker script. */
extern uint32_t data_start[], data_end[], bss_start[], bss_end[];
extern const uint32_t data_load[];

_Noreturn void reset(void);
int *__errno(void);
void fault(void);
_Noreturn void report_fault(const uint32_t *frame, uint32_t exc_return);

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[] = {
    (uintptr_t)stack_top,
    (uintptr_t)reset,
    (uintptr_t)fault, /* NMI; never raised */
    (uintptr_t)fault, /* the other faults are disabled and escalate to HardFault */
    [FIRST_IRQ + ETD_UART_IRQ] = (uintptr_t)port_interrupt,
#ifdef ETD_UART_SEND_IRQ
    [FIRST_IRQ + ETD_UART_SEND_IRQ] = (uintptr_t)port_interrupt,
#endif
};

/* A boot loader may have set its own vector table. A Cortex-M0 lacks the register; its table is at address 0.
 * A Cortex-M0+ has it in all chips that start from elsewhere. */
static void use_vectors(void) {
#ifndef ETD_NO_VTOR
    REGISTER(VTOR) = (uintptr_t)vectors;
#endif
}

static void start_fpu(void) {
#ifdef __ARM_FP
    REGISTER(CPACR) |= CPACR_FPU_ON;
    __asm volatile("dsb\nisb" ::: "memory");
#endif
}

/* Forbids access below the stack. Not every machine faults there by itself; QEMU's MPS2 does not. */
#ifdef __ARM_ARCH_8M_MAIN__
static void guard_stack(void) {
    __asm volatile("msr msplim, %0" ::"r"(stack_bottom));
}
#elif defined(__ARM_ARCH_8M_BASE__)
/* Its MPU is another one than Armv7-M's, and cannot forbid reading. The limit of the stack is for secure code
 * only. */
static void guard_stack(void) {
    if (REGISTER(MPU_TYPE) == 0) {
        return;
    }
    REGISTER(MPU_MAIR0) = 0; /* device memory, of which attribute 0 is of the region */
    REGISTER(MPU_RNR) = 0;
    REGISTER(MPU_RBAR) = ((uintptr_t)stack_bottom - GUARD_SIZE) | MPU_RBAR_READ_ONLY;
    REGISTER(MPU_RLAR) = ((uintptr_t)stack_bottom - MPU_RLAR_UNIT) | MPU_RLAR_ON;
    REGISTER(MPU_CTRL) = MPU_CTRL_ON;
    __asm volatile("dsb\nisb" ::: "memory");
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
    use_vectors();
    start_fpu();
    guard_stack();
    port_start();
    memcpy(data_start, data_load, (uintptr_t)data_end - (uintptr_t)data_start);
    memset(bss_start, 0, (uintptr_t)bss_end - (uintptr_t)bss_start);
#ifdef ETD_CPLUSPLUS
    run_constructors();
#endif
    (void)main();
    core_reset();
}

void core_start_interrupts(void) {
    NVIC_ENABLE(ETD_UART_IRQ) = 1u << ETD_UART_IRQ % 32u;
#ifdef ETD_UART_SEND_IRQ
    NVIC_ENABLE(ETD_UART_SEND_IRQ) = 1u << ETD_UART_SEND_IRQ % 32u;
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

/* libm stores error numbers here; they are never read. newlib's own errno would add 1 KiB of stream state. */
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

/* Reports on a fresh stack, because the old one may be the cause of the fault. */
__attribute__((naked)) void fault(void) {
    __asm volatile("mov r0, sp\n"
                   "mov r1, lr\n"
                   "ldr r2, =stack_top\n"
                   "mov sp, r2\n"
                   "ldr r2, =report_fault\n"
                   "bx r2\n"
                   ".ltorg\n");
}

static void set(etd_fault *fault, uint32_t number, uint32_t value) {
    fault->registers[number] = value;
    fault->known |= 1u << number;
}

static void read_fault_status(etd_fault *fault) {
#ifndef __ARM_ARCH_6M__
    uint32_t status = REGISTER(CFSR);
    set(fault, ETD_POSTMORTEM_CORTEX_M_CFSR, status);
    set(fault, ETD_POSTMORTEM_CORTEX_M_HFSR, REGISTER(HFSR));
    if ((status & CFSR_MMFAR_VALID) != 0) {
        set(fault, ETD_POSTMORTEM_CORTEX_M_MMFAR, REGISTER(MMFAR));
    }
    if ((status & CFSR_BFAR_VALID) != 0) {
        set(fault, ETD_POSTMORTEM_CORTEX_M_BFAR, REGISTER(BFAR));
    }
#else
    (void)fault;
#endif
}

/* The frame may lie outside the stack; it was then never written. */
static void read_frame(etd_fault *fault, const uint32_t *frame, uint32_t exc_return) {
    set(fault, ETD_POSTMORTEM_CORTEX_M_EXC_RETURN, exc_return);
    if (frame < stack_bottom || frame + FRAME_WORDS > stack_top) {
        return;
    }
    memcpy(fault->registers, frame, FRAME_WORDS * sizeof *frame);
    fault->known |= FRAME_KNOWN;
    uint32_t words = FRAME_WORDS + ((exc_return & EXC_RETURN_NO_FPU) != 0 ? 0u : FPU_WORDS);
    words += (fault->registers[ETD_POSTMORTEM_CORTEX_M_XPSR] & XPSR_REALIGNED) != 0;
    set(fault, ETD_POSTMORTEM_CORTEX_M_SP, (uint32_t)(uintptr_t)(frame + words));
}

static uint32_t exception_number(void) {
    uint32_t number;
    __asm volatile("mrs %0, ipsr" : "=r"(number));
    return number;
}

static void put_hex(char *at, uint32_t value) {
    for (int digit = 7; digit >= 0; digit--) {
        at[digit] = "0123456789abcdef"[value & 15u];
        value >>= 4;
    }
}

_Noreturn void report_fault(const uint32_t *frame, uint32_t exc_return) {
    /* The NUL ends a frame that was being sent; otherwise the text would become part of it. */
    static const char text[] = "\0hard fault at pc=0x????????\n";
    static etd_fault fault;          /* static, because on the fresh stack it could overwrite the frame */
    memset(&fault, 0, sizeof fault); /* the fault may happen before .bss is cleared */
    fault.kind = ETD_POSTMORTEM_FAULT_CORTEX_M;
    fault.number = exception_number();
    read_frame(&fault, frame, exc_return);
    read_fault_status(&fault);
    etd_app_fault(&fault);
    char line[sizeof text];
    for (size_t i = 0; i < sizeof text; i++) {
        line[i] = text[i];
    }
    if ((fault.known & 1u << ETD_POSTMORTEM_CORTEX_M_PC) != 0) {
        put_hex(line + sizeof text - 10, fault.registers[ETD_POSTMORTEM_CORTEX_M_PC]);
    }
    port_console((const uint8_t *)line, sizeof text - 1);
    port_finish_sending();
    core_reset();
}
