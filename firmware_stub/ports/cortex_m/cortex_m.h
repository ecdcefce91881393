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

int main(void);

#endif
