/* From reset to main, and what becomes of a fault: a line of text, then a reset, so that a crashed board is
 * noticed and can be used again. */
#include "cortex_m.h"

#include <stddef.h>

#define AIRCR 0xE000ED0Cu
#define AIRCR_RESET 0x05FA0004u /* the key, and SYSRESETREQ */

/* What the CPU pushes at an exception; the link register and the address that faulted are among it. */
#define FRAME_WORDS 8
#define FRAME_PC 6

/* From the linker script. */
extern uint32_t stack_bottom[], stack_top[], data_start[], data_end[], bss_start[], bss_end[];
extern const uint32_t data_load[];

_Noreturn void reset(void);
void fault(void);
_Noreturn void report_fault(const uint32_t *frame);

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[] = {
    (uintptr_t)stack_top, (uintptr_t)reset, (uintptr_t)fault, /* NMI; nothing raises it */
    (uintptr_t)fault, /* every other fault escalates to HardFault, because none is enabled */
};

_Noreturn void reset(void) {
    const uint32_t *from = data_load;
    for (uint32_t *to = data_start; to < data_end; to++) {
        *to = *from++;
    }
    for (uint32_t *to = bss_start; to < bss_end; to++) {
        *to = 0;
    }
    (void)main();
    cortex_m_reset();
}

_Noreturn void cortex_m_reset(void) {
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
                   "b report_fault\n"
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
    cortex_m_console((const uint8_t *)line, sizeof text - 1);
    cortex_m_reset();
}
