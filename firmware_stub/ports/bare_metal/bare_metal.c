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

static uint32_t read(uint8_t *bytes, uint32_t size) {
    return etd_serial_read(&serial, bytes, size);
}

static void write(const uint8_t *bytes, uint32_t size) {
    etd_serial_write(&serial, bytes, size);
}

void port_print(const uint8_t *bytes, uint32_t size) {
    if (serial.uart != NULL) {
        write(bytes, size);
    }
}

/* Interrupts are masked while checking, so a byte that arrives between the check and the sleep still wakes
 * the core. */
static void idle(void) {
    core_mask_interrupts(true);
    if (!etd_serial_waiting(&serial)) {
        core_sleep();
    }
    core_mask_interrupts(false);
}

static void quiet(bool on) {
    etd_serial_quiet(&serial, on);
}

static uint32_t overruns(void) {
    return etd_serial_overruns(&serial);
}

static void reboot(void) {
    etd_serial_flush(&serial);
    port_finish_sending();
    core_reset();
}

__attribute__((weak)) void port_set_baud(uint32_t baud) {
    (void)baud;
}

static void set_baud(uint32_t baud) {
    etd_serial_flush(&serial);
    port_finish_sending();
    port_set_baud(baud);
}

int main(void) {
    static const etd_uart uart = {
        .receive = port_receive,
        .send = port_send,
        .interrupts = port_interrupts,
        .mask = core_mask_interrupts,
    };
    static const etd_port port = {
        .read = read,
        .write = write,
        .idle = idle,
        .ticks = port_ticks,
        .restart_clock = port_restart_clock,
        .reboot = reboot,
        .quiet = quiet,
        .overruns = overruns,
        .set_baud = set_baud,
        .reset_reason = port_reset_reason,
        .stack_bottom = stack_bottom,
        .stack_top = stack_top,
    };
    etd_serial_init(&serial, &uart, receive_ring, sizeof receive_ring, send_ring, sizeof send_ring);
    core_start_interrupts();
    port_restart_clock();
    etd_app_main(&port, &port_target);
}
