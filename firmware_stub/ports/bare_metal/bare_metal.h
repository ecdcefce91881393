// SPDX-License-Identifier: Apache-2.0
/* What a bare-metal port implements. ports/bare_metal/bare_metal.c builds the firmware on it. The core_*
 * functions are in ports/cortex_m/ or in the port. port.cmake may set ETD_RECEIVE_RING and
 * ETD_SEND_RING. */
#ifndef BARE_METAL_H
#define BARE_METAL_H

#include <stdbool.h>
#include <stdint.h>

#include "etd_port.h"
#include "etd_serial.h"

/* Sizes of the UART's rings in bytes, powers of two. With a larger send ring the line waits less for the next
 * frame. */
#ifndef ETD_RECEIVE_RING
#define ETD_RECEIVE_RING 1024
#endif
#ifndef ETD_SEND_RING
#define ETD_SEND_RING 1024
#endif

/* A device register. */
#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))

/* Limits of the stack, from the linker script. */
extern uint32_t stack_bottom[], stack_top[];

/* Description of the board and its counter. */
extern const etd_target port_target;

/* Starts the chip's clock and the UART. Called directly after reset, before variables are initialized. */
void port_start(void);

/* The functions of an etd_uart, without its context. */
int32_t port_receive(void);
bool port_send(uint8_t byte);
void port_interrupts(bool received, bool room);

/* Waits until the last byte that the UART accepted is on the line. */
void port_finish_sending(void);

/* Changes the line to one of the rates in port_target. Not needed by a port with a single rate. */
void port_set_baud(uint32_t baud);

/* Functions of an etd_port, without its context. port_reset_reason is optional. */
uint32_t port_ticks(void);
void port_restart_clock(void);
uint32_t port_reset_reason(void) __attribute__((weak));

/* Optional. Returns the hardware counters that count on this chip; NULL if none does. Called once, before the
 * server starts. */
const etd_counter_source *port_counters(void) __attribute__((weak));

/* Optional: feeds a watchdog. Called as in etd_port, and whenever the server waits for the host, before the
 * core sleeps. The watchdog must allow for the longest operator. If it runs while the core sleeps, an
 * interrupt of a timer must wake the core in time. `context` is NULL. */
void port_alive(void *context) __attribute__((weak));

/* Optional. Returns for how many ticks of port_ticks a write may wait for the UART to accept a byte, as when
 * its flow control stops it; what waits is then dropped and counted. Without it, or with 0, a write waits as
 * long as it takes. Called once, before the server starts. */
uint32_t port_send_timeout(void) __attribute__((weak));

/* Optional: sets the marker pin, as in etd_port. */
void port_marker(void *context, bool high) __attribute__((weak));

/* Optional: tracers of other cores, as in etd_port. */
extern const etd_more_tracers port_more_tracers __attribute__((weak));

/* The two functions of the clock as an etd_port has them; both contexts are unused. */
static inline uint32_t port_ticks_of(void *context) {
    (void)context;
    return port_ticks();
}

static inline void port_restart_clock_of(void *context) {
    (void)context;
    port_restart_clock();
}

/* Functions of the core. A masked interrupt must still wake the core from sleep. */
void core_start_interrupts(void);
void core_mask_interrupts(bool on);
void core_sleep(void);
_Noreturn void core_reset(void);

/* Called by the core's start-up code: the UART's interrupt, and text output after a fault, which must not
 * depend on variables. */
void port_interrupt(void);
void port_console(const uint8_t *bytes, uint32_t size);
int main(void);

/* Sends text to the host, between frames. Text printed before main is dropped. */
void port_print(const uint8_t *bytes, uint32_t size);

/* Runs the constructors of static C++ objects. Start-up calls it before main if ETD_CPLUSPLUS is defined
 * (cplusplus.c). */
void run_constructors(void);

#endif
