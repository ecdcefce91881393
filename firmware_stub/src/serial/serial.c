// SPDX-License-Identifier: Apache-2.0
#include "etd_serial.h"

static uint32_t filled(etd_ring *ring) {
    return atomic_load_explicit(&ring->put, memory_order_acquire) -
           atomic_load_explicit(&ring->taken, memory_order_acquire);
}

static uint32_t room(etd_ring *ring) {
    return ring->size - filled(ring);
}

/* Called only by the producer, and only when there is room. */
static void put(etd_ring *ring, uint8_t byte) {
    uint32_t at = atomic_load_explicit(&ring->put, memory_order_relaxed);
    ring->bytes[at & (ring->size - 1)] = byte;
    atomic_store_explicit(&ring->put, at + 1, memory_order_release);
}

/* Called only by the consumer, and only when the ring is not empty. */
static uint8_t first(etd_ring *ring) {
    return ring->bytes[atomic_load_explicit(&ring->taken, memory_order_relaxed) & (ring->size - 1)];
}

static void drop_first(etd_ring *ring) {
    uint32_t at = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    atomic_store_explicit(&ring->taken, at + 1, memory_order_release);
}

static void enable_interrupts(etd_serial *serial, bool received, bool room_to_send) {
    if (received != serial->on_received || room_to_send != serial->on_room) {
        serial->on_received = received;
        serial->on_room = room_to_send;
        serial->uart->interrupts(received, room_to_send);
    }
}

void etd_serial_interrupt(etd_serial *serial) {
    /* Enable interrupts before looking at the UART, so that later bytes interrupt again. A full ring must not
     * enable them: the interrupt would repeat without end. */
    bool held = room(&serial->received) == 0;
    enable_interrupts(serial, !held, filled(&serial->sending) > 0);
    while (!held) {
        int32_t received = serial->uart->receive();
        if (received < 0) {
            break;
        }
        if ((received & ETD_UART_OVERRUN) != 0) {
            uint32_t before = atomic_load_explicit(&serial->overruns, memory_order_relaxed);
            atomic_store_explicit(&serial->overruns, before + 1, memory_order_relaxed);
        }
        put(&serial->received, (uint8_t)received);
        held = room(&serial->received) == 0;
    }
    while (filled(&serial->sending) > 0 && serial->uart->send(first(&serial->sending))) {
        drop_first(&serial->sending);
    }
    atomic_store_explicit(&serial->held, held, memory_order_release);
    enable_interrupts(serial, !held, filled(&serial->sending) > 0);
}

/* Runs the interrupt handler with the interrupt masked, so that each ring keeps one producer and one
 * consumer. */
static void poll_uart(etd_serial *serial) {
    serial->uart->mask(true);
    etd_serial_interrupt(serial);
    serial->uart->mask(serial->quiet);
}

void etd_serial_init(etd_serial *serial, const etd_uart *uart, uint8_t *receive_ring, uint32_t receive_size,
                     uint8_t *send_ring, uint32_t send_size) {
    uart->mask(true);
    *serial = (etd_serial){
        .uart = uart,
        .received = {.bytes = receive_ring, .size = receive_size},
        .sending = {.bytes = send_ring, .size = send_size},
        .quiet = true,
    };
}

uint32_t etd_serial_read(etd_serial *serial, uint8_t *bytes, uint32_t size) {
    uint32_t count = filled(&serial->received);
    count = count < size ? count : size;
    for (uint32_t i = 0; i < count; i++) {
        bytes[i] = first(&serial->received);
        drop_first(&serial->received);
    }
    if (atomic_load_explicit(&serial->held, memory_order_acquire)) {
        poll_uart(serial);
    }
    return count;
}

void etd_serial_write(etd_serial *serial, const uint8_t *bytes, uint32_t size) {
    while (size > 0) {
        for (uint32_t free = room(&serial->sending); free > 0 && size > 0; free--, size--) {
            put(&serial->sending, *bytes++);
        }
        poll_uart(serial);
    }
    if (serial->quiet) {
        etd_serial_flush(serial);
    }
}

uint32_t etd_serial_room(etd_serial *serial) {
    return room(&serial->sending);
}

bool etd_serial_waiting(etd_serial *serial) {
    return filled(&serial->received) > 0;
}

void etd_serial_flush(etd_serial *serial) {
    while (filled(&serial->sending) > 0) {
        poll_uart(serial);
    }
}

void etd_serial_quiet(etd_serial *serial, bool on) {
    etd_serial_flush(serial);
    serial->quiet = on;
    poll_uart(serial);
}

uint32_t etd_serial_overruns(etd_serial *serial) {
    return atomic_load_explicit(&serial->overruns, memory_order_relaxed);
}
