// SPDX-License-Identifier: Apache-2.0
/* The firmware of the bare-metal ports: rings for the UART, the tick counter, and the server. */
#include "bare_metal.h"

#include <stddef.h>

static uint8_t receive_ring[ETD_RECEIVE_RING];
static uint8_t send_ring[ETD_SEND_RING];
static etd_serial serial;

_Static_assert((ETD_RECEIVE_RING & (ETD_RECEIVE_RING - 1)) == 0, "ETD_RECEIVE_RING is not a power of two");
_Static_assert((ETD_SEND_RING & (ETD_SEND_RING - 1)) == 0, "ETD_SEND_RING is not a power of two");

void port_interrupt(void) {
    etd_serial_interrupt(&serial);
}

void port_console(const uint8_t *bytes, uint32_t size) {
    for (uint32_t i = 0; i < size; i++) {
        while (!port_send(bytes[i])) {
        }
    }
}

static uint32_t read(void *context, uint8_t *bytes, uint32_t size) {
    (void)context;
    return etd_serial_read(&serial, bytes, size);
}

static void write(void *context, const uint8_t *bytes, uint32_t size) {
    (void)context;
    (void)etd_serial_write(&serial, bytes, size);
}

void port_print(const uint8_t *bytes, uint32_t size) {
    if (serial.uart != NULL) {
        (void)etd_serial_write(&serial, bytes, size);
    }
}

/* Interrupts are masked while checking, so a byte that arrives between the check and the sleep still wakes
 * the core. */
static void idle(void *context) {
    (void)context;
    if (port_alive != NULL) {
        port_alive(NULL);
    }
    core_mask_interrupts(true);
    if (!etd_serial_waiting(&serial)) {
        core_sleep();
    }
    core_mask_interrupts(false);
}

static void quiet(void *context, bool on) {
    (void)context;
    etd_serial_quiet(&serial, on);
}

static uint32_t overruns(void *context) {
    (void)context;
    return etd_serial_overruns(&serial);
}

static void reboot(void *context) {
    (void)context;
    (void)etd_serial_flush(&serial);
    port_finish_sending();
    core_reset();
}

static uint32_t reset_reason(void *context) {
    (void)context;
    return port_reset_reason != NULL ? port_reset_reason() : 0u;
}

static const etd_counter_source *counters(void *context) {
    (void)context;
    return port_counters != NULL ? port_counters() : NULL;
}

static void crash(void *context) {
    (void)context;
    __builtin_trap();
}

static int32_t receive(void *context) {
    (void)context;
    return port_receive();
}

static bool send(void *context, uint8_t byte) {
    (void)context;
    return port_send(byte);
}

static void interrupts(void *context, bool received, bool room) {
    (void)context;
    port_interrupts(received, room);
}

static void mask(void *context, bool on) {
    (void)context;
    core_mask_interrupts(on);
}

__attribute__((weak)) void port_set_baud(uint32_t baud) {
    (void)baud;
}

static void set_baud(void *context, uint32_t baud) {
    (void)context;
    (void)etd_serial_flush(&serial);
    port_finish_sending();
    port_set_baud(baud);
}

int main(void) {
    static etd_uart uart = {
        .receive = receive,
        .send = send,
        .interrupts = interrupts,
        .mask = mask,
    };
    if (port_send_timeout != NULL) {
        uart.ticks = port_ticks_of;
        uart.timeout = port_send_timeout();
    }
    static const etd_port port = {
        .read = read,
        .write = write,
        .idle = idle,
        .ticks = port_ticks_of,
        .restart_clock = port_restart_clock_of,
        .reboot = reboot,
        .quiet = quiet,
        .overruns = overruns,
        .set_baud = set_baud,
        .reset_reason = reset_reason,
        .counters = counters,
        .marker = port_marker, /* NULL if the port has none */
        .alive = port_alive,   /* NULL if the port has none */
        .crash = crash,
        .more_tracers = &port_more_tracers, /* NULL if the port has none */
        .stack_bottom = stack_bottom,
        .stack_top = stack_top,
    };
    etd_serial_init(&serial, &uart, receive_ring, sizeof receive_ring, send_ring, sizeof send_ring);
    core_start_interrupts();
    port_restart_clock();
    etd_app_main(&port, &port_target);
}
