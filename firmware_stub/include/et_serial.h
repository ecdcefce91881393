/* Bytes between a UART's interrupt and the server: a ring in each direction, so that nothing is lost while a
 * frame is handled and the line is busy while the next one is made.
 *
 * A ring has one side that puts and one that takes, and no lock. A full receive ring loses nothing by itself:
 * its bytes stay in the UART, whose own overrun is counted. While the device executes it is quiet: no
 * interrupt is taken, and what is written has been handed to the UART when et_serial_write returns.
 *
 * Use: fill an et_uart, et_serial_init, call et_serial_interrupt from the UART's interrupt handler; the other
 * functions are what an et_port needs. */
#ifndef ET_SERIAL_H
#define ET_SERIAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Added to a received byte: the UART lost bytes before it. */
#define ET_UART_OVERRUN 0x100

/* A UART as its port drives it. */
typedef struct {
    /* The next received byte, perhaps with ET_UART_OVERRUN; -1 when there is none. Forgets the interrupt that
     * announced it before it looks. */
    int32_t (*receive)(void);
    /* Takes a byte to send; false while its buffer is full. */
    bool (*send)(uint8_t byte);
    /* What may interrupt: bytes received, room for bytes to send. What may not is forgotten too. */
    void (*interrupts)(bool received, bool room);
    /* Keeps the CPU from taking the UART's interrupt, or lets it. */
    void (*mask)(bool on);
} et_uart;

/* A ring of bytes; the counts go up without end. */
typedef struct {
    uint8_t *bytes;
    uint32_t size; /* a power of two */
    _Atomic uint32_t put;
    _Atomic uint32_t taken;
} et_ring;

/* Fields are private. */
typedef struct {
    const et_uart *uart;
    et_ring received;
    et_ring sending;
    _Atomic uint32_t overruns;
    _Atomic bool held; /* bytes stay in the UART, because the ring was full */
    bool on_received;  /* what may interrupt */
    bool on_room;
    bool quiet;
} et_serial;

/* Sizes are powers of two. The serial begins quiet. */
void et_serial_init(et_serial *serial, const et_uart *uart, uint8_t *receive_ring, uint32_t receive_size,
                    uint8_t *send_ring, uint32_t send_size);

/* Moves bytes between the UART and the rings. */
void et_serial_interrupt(et_serial *serial);

/* Takes up to size received bytes without waiting; returns how many. */
uint32_t et_serial_read(et_serial *serial, uint8_t *bytes, uint32_t size);

/* Puts all the bytes into the ring, waiting for room as needed. */
void et_serial_write(et_serial *serial, const uint8_t *bytes, uint32_t size);

/* How many bytes et_serial_write takes without waiting. */
uint32_t et_serial_room(et_serial *serial);

/* Whether et_serial_read has something to give. */
bool et_serial_waiting(et_serial *serial);

/* Waits until the UART has been handed all the bytes written. */
void et_serial_flush(et_serial *serial);

/* With true: flushes, then lets no interrupt happen until called with false. */
void et_serial_quiet(et_serial *serial, bool on);

/* How often the UART has lost bytes because nobody took them in time. */
uint32_t et_serial_overruns(et_serial *serial);

#endif
