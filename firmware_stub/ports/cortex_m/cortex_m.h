/* What a Cortex-M port gets from the shared start-up, and what it owes it. */
#ifndef CORTEX_M_H
#define CORTEX_M_H

#include <stdint.h>

/* A device register. */
#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))

/* Resets the chip; does not return. */
_Noreturn void cortex_m_reset(void);

/* Given by the port: sends bytes, waiting for the line. Called with the console ready or after a fault,
 * however early, so it must not rely on memory that main sets up. */
void cortex_m_console(const uint8_t *bytes, uint32_t size);

/* Lets an interrupt wake the CPU from sleep. It is never taken, so nothing disturbs an execution. */
static inline void cortex_m_wake_on(uint32_t irq) {
    __asm volatile("cpsid i");
    REGISTER(0xE000E100u + irq / 32 * 4) = 1u << irq % 32;
}

/* Forgets an interrupt that woke the CPU, or the next sleep would end at once. */
static inline void cortex_m_unpend(uint32_t irq) {
    REGISTER(0xE000E280u + irq / 32 * 4) = 1u << irq % 32;
}

int main(void);

#endif
