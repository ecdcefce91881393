// SPDX-License-Identifier: Apache-2.0
/* Bytes between a UART's interrupt and the server: a ring in each direction, so that nothing is lost while a
 * frame is handled and the line is busy while the next one is made.
 *
 * A ring has one side that puts and one that takes, and no lock. A full receive ring loses nothing by itself:
 * its bytes stay in the UART, whose own overrun is counted. While the device executes it is quiet: no
 * interrupt is taken, and what is written has been handed to the UART when etd_serial_write returns.
 *
 * Use: fill an etd_uart, etd_serial_init, call etd_serial_interrupt from the UART's interrupt handler; the
 * other functions are what an etd_port needs. */
#ifndef ETD_SERIAL_H
#define ETD_SERIAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Added to a received byte: the UART lost bytes before it. */
#define ETD_UART_OVERRUN 0x100

/* A UART as its port drives it. */
typedef struct {
    /* The next received byte, perhaps with ETD_UART_OVERRUN; -1 when there is none. Forgets the interrupt
     * that announced it before it looks. */
    int32_t (*receive)(void);
    /* Takes a byte to send; false while its buffer is full. */
    bool (*send)(uint8_t byte);
    /* What may interrupt: bytes received, room for bytes to send. What may not is forgotten too. */
    void (*interrupts)(bool received, bool room);
    /* Keeps the CPU from taking the UART's interrupt, or lets it. */
    void (*mask)(bool on);
} etd_uart;

/* A ring of bytes; the counts go up without end. */
typedef struct {
    uint8_t *bytes;
    uint32_t size; /* a power of two */
    _Atomic uint32_t put;
    _Atomic uint32_t taken;
} etd_ring;

/* Fields are private. */
typedef struct {
    const etd_uart *uart;
    etd_ring received;
    etd_ring sending;
    _Atomic uint32_t overruns;
    _Atomic bool held; /* bytes stay in the UART, because the ring was full */
    bool on_received;  /* what may interrupt */
    bool on_room;
    bool quiet;
} etd_serial;

/* Sizes are powers of two. The serial begins quiet. */
void etd_serial_init(etd_serial *serial, const etd_uart *uart, uint8_t *receive_ring, uint32_t receive_size,
                     uint8_t *send_ring, uint32_t send_size);

/* Moves bytes between the UART and the rings. */
void etd_serial_interrupt(etd_serial *serial);

/* Takes up to size received bytes without waiting; returns how many. */
uint32_t etd_serial_read(etd_serial *serial, uint8_t *bytes, uint32_t size);

/* Puts all the bytes into the ring, waiting for room as needed. */
void etd_serial_write(etd_serial *serial, const uint8_t *bytes, uint32_t size);

/* How many bytes etd_serial_write takes without waiting. */
uint32_t etd_serial_room(etd_serial *serial);

/* Whether etd_serial_read has something to give. */
bool etd_serial_waiting(etd_serial *serial);

/* Waits until the UART has been handed all the bytes written. */
void etd_serial_flush(etd_serial *serial);

/* With true: flushes, then lets no interrupt happen until called with false. */
void etd_serial_quiet(etd_serial *serial, bool on);

/* How often the UART has lost bytes because nobody took them in time. */
uint32_t etd_serial_overruns(etd_serial *serial);

#endif
