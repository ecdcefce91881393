// SPDX-License-Identifier: Apache-2.0
/* Byte streams between a board and a debug probe, through rings in memory. The control block has the layout
 * of SEGGER's Real-Time Transfer (RTT), so that J-Link, OpenOCD and pyOCD serve it as a TCP port.
 *
 * A probe that reads memory while the core runs does not disturb it. No interrupt is involved: the board has
 * to look for received bytes, and must not sleep while it waits for some. */
#ifndef ETD_RTT_H
#define ETD_RTT_H

#include <stdint.h>

/* A ring. One byte of it stays free, so equal offsets mean that it is empty. */
typedef struct {
    const char *name;
    uint8_t *bytes;
    uint32_t size;
    volatile uint32_t put;   /* offset of the next byte to write */
    volatile uint32_t taken; /* offset of the next byte to read */
    uint32_t flags;
} etd_rtt_ring;

/* A control block with one channel in each direction. Give it static storage, zeroed before etd_rtt_init.
 * With a data cache, block and rings have to be in memory that is not cached. */
typedef struct {
    char id[16];
    int32_t up_count;
    int32_t down_count;
    etd_rtt_ring up;   /* to the host */
    etd_rtt_ring down; /* to the board */
} etd_rtt;

/* Initializes a control block. The sizes are in bytes; make the ring to the board as large as the longest
 * request. All memory must outlive it. */
void etd_rtt_init(etd_rtt *rtt, uint8_t *up, uint32_t up_size, uint8_t *down, uint32_t down_size);

/* Copies up to `size` received bytes without waiting; returns the number of bytes. */
uint32_t etd_rtt_read(etd_rtt *rtt, uint8_t *bytes, uint32_t size);

/* Copies as many bytes as fit to the ring without waiting; returns their number. */
uint32_t etd_rtt_put(etd_rtt *rtt, const uint8_t *bytes, uint32_t size);

/* Sends all bytes; waits until the host has made room. */
void etd_rtt_write(etd_rtt *rtt, const uint8_t *bytes, uint32_t size);

#endif
