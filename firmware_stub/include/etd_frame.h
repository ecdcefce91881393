// SPDX-License-Identifier: Apache-2.0
/* Frames on the wire: COBS, CRC-32, and a decoder that separates frames from console text.
 *
 * The coding is described in docs/protocol.md. No I/O here: bytes in, frames out. */
#ifndef ETD_FRAME_H
#define ETD_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "etd_link_wire.h"

/* Bytes that `size` payload bytes take at most once encoded, both delimiters included. */
#define ETD_FRAME_ENCODED_SIZE(size) ((size) + (size) / 254u + 3u)

/* CRC-32/ISO-HDLC of bytes, continuing from crc (0 to begin). */
uint32_t etd_crc32(uint32_t crc, const void *bytes, uint32_t size);

/* Fills the last 4 bytes of the payload with the CRC of those before, then writes 00 <COBS> 00 to out, which
 * has ETD_FRAME_ENCODED_SIZE(size) bytes. Returns the bytes written. */
uint32_t etd_frame_encode(uint8_t *payload, uint32_t size, uint8_t *out);

typedef enum {
    ETD_FRAME_NOTHING,  /* the byte was taken; nothing is complete */
    ETD_FRAME_TEXT,     /* the byte is console text */
    ETD_FRAME_GOOD,     /* payload[0..size) is a checked frame, CRC included */
    ETD_FRAME_TOO_LONG, /* the rest are reasons why a frame was rejected */
    ETD_FRAME_BAD_COBS,
    ETD_FRAME_TOO_SHORT,
    ETD_FRAME_BAD_MARKER,
    ETD_FRAME_BAD_CRC,
} etd_frame_result;

typedef struct {
    uint8_t *payload;  /* caller's; capacity bytes */
    uint32_t capacity; /* mtu + mtu / 254 + 1, for the encoded frame in place */
    uint32_t size;     /* of the frame when ETD_FRAME_GOOD */
    uint8_t state;
} etd_frame_decoder;

void etd_frame_decoder_init(etd_frame_decoder *decoder, uint8_t *payload, uint32_t capacity);

/* Takes one byte. A result other than NOTHING is valid until the next call. */
etd_frame_result etd_frame_decode(etd_frame_decoder *decoder, uint8_t byte);

#endif
