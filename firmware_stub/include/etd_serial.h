// SPDX-License-Identifier: Apache-2.0
/* Interrupt-driven UART with a ring buffer in each direction. Bytes can arrive while the server handles a
 * frame, and the line sends one frame while the next is made.
 *
 * Each ring has one producer and one consumer and needs no lock. When the receive ring is full, bytes stay in
 * the UART, which counts an overrun if it runs full as well. In quiet mode no interrupt is taken,
 * reading polls the UART, and etd_serial_write returns only when the UART has accepted all bytes.
 *
 * An interrupt may call etd_serial_interrupt only. All other functions belong to one task; several tasks that
 * write need a lock of theirs around each frame.
 *
 * Use: fill in an etd_uart, call etd_serial_init, and call etd_serial_interrupt from the UART's interrupt
 * handler. The other functions implement the members of an etd_port. */
#ifndef ETD_SERIAL_H
#define ETD_SERIAL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Set in a received byte if the UART lost bytes before it. */
#define ETD_UART_OVERRUN 0x100

/* UART driver of a port. */
typedef struct {
    void *context; /* passed to every function; may be NULL */
    /* Returns the next received byte, or-ed with ETD_UART_OVERRUN if bytes were lost before it, or -1 if
     * there is none. Must clear the receive interrupt before it looks for a byte. */
    int32_t (*receive)(void *context);
    /* Sends a byte. Returns false if the UART's buffer is full. */
    bool (*send)(void *context, uint8_t byte);
    /* Enables or disables the interrupts for received bytes and for room to send. Must clear the pending
     * state of those it disables. */
    void (*interrupts)(void *context, bool received, bool room);
    /* Masks or unmasks the UART's interrupt in the CPU. */
    void (*mask)(void *context, bool on);
    /* Optional. A 32-bit counter that counts up, and how many of its ticks a write or flush may last without
     * the UART accepting a byte, as behind a cable that was pulled. Bytes that wait then are dropped. Without
     * it, or with timeout 0, a write waits as long as it takes. */
    uint32_t (*ticks)(void *context);
    uint32_t timeout;
} etd_uart;

/* A ring of bytes. The counts are never reset; they wrap at 2^32. */
typedef struct {
    uint8_t *bytes;
    uint32_t size; /* a power of two */
    uint32_t put;  /* accessed atomically, as is taken */
    uint32_t taken;
} etd_ring;

/* A serial port. Fields are private. */
typedef struct {
    const etd_uart *uart;
    etd_ring received;
    etd_ring sending;
    uint32_t overruns; /* accessed atomically, as is held */
    uint32_t dropped;  /* bytes to send that were given up */
    bool held;         /* the ring was full, so bytes stay in the UART */
    bool on_received;  /* interrupts that are enabled */
    bool on_room;
    bool quiet;
} etd_serial;

/* Initializes a serial port in quiet mode. The sizes are in bytes and must be powers of two. `uart` and both
 * buffers must outlive it. */
void etd_serial_init(etd_serial *serial, const etd_uart *uart, uint8_t *receive_ring, uint32_t receive_size,
                     uint8_t *send_ring, uint32_t send_size);

/* Moves bytes between the UART and the rings. Call it from the UART's interrupt handler. */
void etd_serial_interrupt(etd_serial *serial);

/* Copies up to `size` received bytes without waiting; returns the number of bytes. In quiet mode it asks the
 * UART for them. */
uint32_t etd_serial_read(etd_serial *serial, uint8_t *bytes, uint32_t size);

/* Queues all bytes for sending; waits for room in the ring as needed. Returns false if the UART's timeout
 * expired: the rest and what was queued is dropped and counted. */
bool etd_serial_write(etd_serial *serial, const uint8_t *bytes, uint32_t size);

/* Returns the number of bytes that etd_serial_write accepts without waiting. */
uint32_t etd_serial_room(etd_serial *serial);

/* Returns true if etd_serial_read has bytes to return. */
bool etd_serial_waiting(etd_serial *serial);

/* Waits until the UART has accepted all bytes written. Returns false if they were dropped after the UART's
 * timeout. */
bool etd_serial_flush(etd_serial *serial);

/* Enters or leaves quiet mode. Entering flushes first, then disables interrupts. */
void etd_serial_quiet(etd_serial *serial, bool on);

/* Returns how often the UART lost bytes because they were read too late. */
uint32_t etd_serial_overruns(etd_serial *serial);

/* Returns the number of bytes that were dropped after a timeout. */
uint32_t etd_serial_dropped(const etd_serial *serial);

#ifdef __cplusplus
}
#endif

#endif
