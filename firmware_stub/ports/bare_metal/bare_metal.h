// SPDX-License-Identifier: Apache-2.0
/* What a bare-metal port is made of. ports/bare_metal/bare_metal.c makes the firmware of it; the core's
 * part is in ports/cortex_m/ or in the port. ETD_RECEIVE_RING and ETD_SEND_RING (port.cmake) are bytes,
 * powers of two. */
#ifndef BARE_METAL_H
#define BARE_METAL_H

#include <stdbool.h>
#include <stdint.h>

#include "etd_port.h"
#include "etd_serial.h"

/* A device register. */
#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))

/* The stack, from the linker script. */
extern uint32_t stack_bottom[], stack_top[];

/* What the board and its counter are. */
extern const etd_target port_target;

/* Starts the chip's clock and the UART. Called right after reset, before variables have values. */
void port_start(void);

/* As in etd_uart. */
int32_t port_receive(void);
bool port_send(uint8_t byte);
void port_interrupts(bool received, bool room);

/* Waits until the last byte that the UART took is on the line. */
void port_finish_sending(void);

/* Changes the rate of the line to one that port_target lists; a port that lists none need not have it. */
void port_set_baud(uint32_t baud);

/* As in etd_port. A port whose chip cannot tell why it has started has no port_reset_reason. */
uint32_t port_ticks(void);
void port_restart_clock(void);
uint32_t port_reset_reason(void) __attribute__((weak));

/* The core. An interrupt that is masked wakes it from sleep all the same. */
void core_start_interrupts(void);
void core_mask_interrupts(bool on);
void core_sleep(void);
_Noreturn void core_reset(void);

/* For the core's start-up: the interrupt of the UART, and text after a fault, which relies on no variable. */
void port_interrupt(void);
void port_console(const uint8_t *bytes, uint32_t size);
int main(void);

#endif
