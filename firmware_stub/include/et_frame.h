/* Frames on the wire: COBS, CRC-32, and a decoder that separates frames from console text.
 *
 * The coding is described in docs/protocol.md. No I/O here: bytes in, frames out. */
#ifndef ET_FRAME_H
#define ET_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "et_link_wire.h"

/* Bytes that `size` payload bytes take at most once encoded, both delimiters included. */
#define ET_FRAME_ENCODED_SIZE(size) ((size) + (size) / 254u + 3u)

/* CRC-32/ISO-HDLC of bytes, continuing from crc (0 to begin). */
uint32_t et_crc32(uint32_t crc, const void *bytes, uint32_t size);

/* Fills the last 4 bytes of the payload with the CRC of those before, then writes 00 <COBS> 00 to out, which
 * has ET_FRAME_ENCODED_SIZE(size) bytes. Returns the bytes written. */
uint32_t et_frame_encode(uint8_t *payload, uint32_t size, uint8_t *out);

typedef enum {
    ET_FRAME_NOTHING,  /* the byte was taken; nothing is complete */
    ET_FRAME_TEXT,     /* the byte is console text */
    ET_FRAME_GOOD,     /* payload[0..size) is a checked frame, CRC included */
    ET_FRAME_TOO_LONG, /* the rest are reasons why a frame was rejected */
    ET_FRAME_BAD_COBS,
    ET_FRAME_TOO_SHORT,
    ET_FRAME_BAD_MARKER,
    ET_FRAME_BAD_CRC,
} et_frame_result;

typedef struct {
    uint8_t *payload;  /* caller's; capacity bytes */
    uint32_t capacity; /* mtu + mtu / 254 + 1, for the encoded frame in place */
    uint32_t size;     /* of the frame when ET_FRAME_GOOD */
    uint8_t state;
} et_frame_decoder;

void et_frame_decoder_init(et_frame_decoder *decoder, uint8_t *payload, uint32_t capacity);

/* Takes one byte. A result other than NOTHING is valid until the next call. */
et_frame_result et_frame_decode(et_frame_decoder *decoder, uint8_t byte);

#endif
