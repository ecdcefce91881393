// SPDX-License-Identifier: Apache-2.0
#include "etd_serial.h"

#include <stddef.h>

/* The header has plain integers, which C99 and C++ can read. Here they are accessed atomically, by builtins
 * of GCC and Clang. For a core without atomic instructions (Armv6-M, RISC-V without A) these may call a
 * library, though its loads and stores of aligned words are atomic, too. */
#if __GCC_ATOMIC_INT_LOCK_FREE == 2
#define LOAD(object) __atomic_load_n(&(object), __ATOMIC_ACQUIRE)
#define LOAD_OWN(object) __atomic_load_n(&(object), __ATOMIC_RELAXED) /* only this side writes it */
#define STORE(object, value) __atomic_store_n(&(object), (value), __ATOMIC_RELEASE)
#define LOAD_FLAG(object) LOAD(object)
#define STORE_FLAG(object, value) STORE(object, value)
#else
#define LOAD(object) load_word(&(object))
#define LOAD_OWN(object) load_word(&(object))
#define STORE(object, value) store_word(&(object), (value))
#define LOAD_FLAG(object) load_flag(&(object))
#define STORE_FLAG(object, value) store_flag(&(object), (value))

static uint32_t load_word(const volatile uint32_t *at) {
    uint32_t value = *at;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return value;
}

static void store_word(volatile uint32_t *at, uint32_t value) {
    __atomic_thread_fence(__ATOMIC_RELEASE);
    *at = value;
}

static bool load_flag(const volatile bool *at) {
    bool value = *at;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return value;
}

static void store_flag(volatile bool *at, bool value) {
    __atomic_thread_fence(__ATOMIC_RELEASE);
    *at = value;
}
#endif

static uint32_t filled(etd_ring *ring) {
    return LOAD(ring->put) - LOAD(ring->taken);
}

static uint32_t room(etd_ring *ring) {
    return ring->size - filled(ring);
}

/* Called only by the producer, and only when there is room. */
static void put(etd_ring *ring, uint8_t byte) {
    uint32_t at = LOAD_OWN(ring->put);
    ring->bytes[at & (ring->size - 1)] = byte;
    STORE(ring->put, at + 1);
}

/* Called only by the consumer, and only when the ring is not empty. */
static uint8_t first(etd_ring *ring) {
    return ring->bytes[LOAD_OWN(ring->taken) & (ring->size - 1)];
}

static void drop_first(etd_ring *ring) {
    uint32_t at = LOAD_OWN(ring->taken);
    STORE(ring->taken, at + 1);
}

static void enable_interrupts(etd_serial *serial, bool received, bool room_to_send) {
    if (received != serial->on_received || room_to_send != serial->on_room) {
        serial->on_received = received;
        serial->on_room = room_to_send;
        serial->uart->interrupts(serial->uart->context, received, room_to_send);
    }
}

void etd_serial_interrupt(etd_serial *serial) {
    /* Enable interrupts before looking at the UART, so that later bytes interrupt again. A full ring must not
     * enable them: the interrupt would repeat without end. */
    bool held = room(&serial->received) == 0;
    enable_interrupts(serial, !held, filled(&serial->sending) > 0);
    while (!held) {
        int32_t received = serial->uart->receive(serial->uart->context);
        if (received < 0) {
            break;
        }
        if ((received & ETD_UART_OVERRUN) != 0) {
            uint32_t before = LOAD_OWN(serial->overruns);
            STORE(serial->overruns, before + 1);
        }
        put(&serial->received, (uint8_t)received);
        held = room(&serial->received) == 0;
    }
    while (filled(&serial->sending) > 0 &&
           serial->uart->send(serial->uart->context, first(&serial->sending))) {
        drop_first(&serial->sending);
    }
    STORE_FLAG(serial->held, held);
    enable_interrupts(serial, !held, filled(&serial->sending) > 0);
}

/* Runs the interrupt handler with the interrupt masked, so that each ring keeps one producer and one
 * consumer. */
static void poll_uart(etd_serial *serial) {
    serial->uart->mask(serial->uart->context, true);
    etd_serial_interrupt(serial);
    serial->uart->mask(serial->uart->context, serial->quiet);
}

/* In quiet mode no interrupt fills the ring. */
static void poll_quiet_uart(etd_serial *serial) {
    if (serial->quiet) {
        poll_uart(serial);
    }
}

void etd_serial_init(etd_serial *serial, const etd_uart *uart, uint8_t *receive_ring, uint32_t receive_size,
                     uint8_t *send_ring, uint32_t send_size) {
    uart->mask(uart->context, true);
    *serial = (etd_serial){
        .uart = uart,
        .received = {.bytes = receive_ring, .size = receive_size},
        .sending = {.bytes = send_ring, .size = send_size},
        .quiet = true,
    };
}

uint32_t etd_serial_read(etd_serial *serial, uint8_t *bytes, uint32_t size) {
    poll_quiet_uart(serial);
    uint32_t count = filled(&serial->received);
    count = count < size ? count : size;
    for (uint32_t i = 0; i < count; i++) {
        bytes[i] = first(&serial->received);
        drop_first(&serial->received);
    }
    if (LOAD_FLAG(serial->held)) {
        poll_uart(serial);
    }
    return count;
}

/* Time since the UART last accepted a byte. The counter may wrap or restart; a wait then ends early or late
 * by less than one period. */
typedef struct {
    uint32_t since;
    uint32_t taken;
} etd_wait;

static etd_wait start_wait(etd_serial *serial) {
    const etd_uart *uart = serial->uart;
    uint32_t now = uart->ticks != NULL ? uart->ticks(uart->context) : 0;
    return (etd_wait){.since = now, .taken = LOAD(serial->sending.taken)};
}

/* Drops what is queued. The interrupt handler is the ring's consumer, so it must not run meanwhile. */
static void drop_queued(etd_serial *serial) {
    serial->uart->mask(serial->uart->context, true);
    serial->dropped += filled(&serial->sending);
    STORE(serial->sending.taken, LOAD_OWN(serial->sending.put));
    serial->uart->mask(serial->uart->context, serial->quiet);
}

/* Polls the UART. Returns false, and drops what is queued, if the UART has accepted nothing for too long. */
static bool wait_for_uart(etd_serial *serial, etd_wait *wait) {
    poll_uart(serial);
    const etd_uart *uart = serial->uart;
    if (uart->ticks == NULL || uart->timeout == 0) {
        return true;
    }
    uint32_t taken = LOAD(serial->sending.taken);
    if (taken != wait->taken) {
        *wait = start_wait(serial);
        return true;
    }
    if (filled(&serial->sending) == 0 || uart->ticks(uart->context) - wait->since < uart->timeout) {
        return true;
    }
    drop_queued(serial);
    return false;
}

bool etd_serial_write(etd_serial *serial, const uint8_t *bytes, uint32_t size) {
    etd_wait wait = start_wait(serial);
    while (size > 0) {
        for (uint32_t free = room(&serial->sending); free > 0 && size > 0; free--, size--) {
            put(&serial->sending, *bytes++);
        }
        if (!wait_for_uart(serial, &wait)) {
            serial->dropped += size;
            return false;
        }
    }
    return !serial->quiet || etd_serial_flush(serial);
}

uint32_t etd_serial_room(etd_serial *serial) {
    return room(&serial->sending);
}

bool etd_serial_waiting(etd_serial *serial) {
    poll_quiet_uart(serial);
    return filled(&serial->received) > 0;
}

bool etd_serial_flush(etd_serial *serial) {
    etd_wait wait = start_wait(serial);
    while (filled(&serial->sending) > 0) {
        if (!wait_for_uart(serial, &wait)) {
            return false;
        }
    }
    return true;
}

void etd_serial_quiet(etd_serial *serial, bool on) {
    (void)etd_serial_flush(serial);
    serial->quiet = on;
    poll_uart(serial);
    if (on) {
        /* The ring is empty and interrupts are masked. Notes go through the same bytes of it in every run,
         * so a cache holds the same lines whatever was sent before. */
        STORE(serial->sending.put, 0);
        STORE(serial->sending.taken, 0);
    }
}

uint32_t etd_serial_overruns(etd_serial *serial) {
    return LOAD_OWN(serial->overruns);
}

uint32_t etd_serial_dropped(const etd_serial *serial) {
    return serial->dropped;
}
