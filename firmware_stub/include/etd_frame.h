// SPDX-License-Identifier: Apache-2.0
/* Frames on the wire: COBS, CRC-32, and a decoder that separates frames from console text.
 *
 * docs/protocol.md describes the encoding. These functions do no I/O and have no global state, so tasks and
 * interrupts may use them at the same time on buffers and decoders of their own. */
#ifndef ETD_FRAME_H
#define ETD_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "etd_link_wire.h"
#include "etd_version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Upper bound in bytes of an encoded frame with `size` payload bytes, including both delimiters. */
#define ETD_FRAME_ENCODED_SIZE(size) ((size) + (size) / 254u + 3u)

/* Returns the CRC-32/ISO-HDLC of `bytes`, continuing from `crc` (0 to start). */
uint32_t etd_crc32(uint32_t crc, const void *bytes, uint32_t size);

/* Encodes a frame. Stores the CRC in the last 4 bytes of the payload, then writes 00 <COBS> 00 to `out`,
 * which must hold ETD_FRAME_ENCODED_SIZE(size) bytes. Returns the number of bytes written. */
uint32_t etd_frame_encode(uint8_t *payload, uint32_t size, uint8_t *out);

/* Result of etd_frame_decode. */
typedef enum {
    ETD_FRAME_NOTHING,  /* byte consumed; nothing complete yet */
    ETD_FRAME_TEXT,     /* the byte is console text */
    ETD_FRAME_GOOD,     /* payload[0..size) is a valid frame, including its CRC */
    ETD_FRAME_TOO_LONG, /* this and the following: reasons why a frame was rejected */
    ETD_FRAME_BAD_COBS,
    ETD_FRAME_TOO_SHORT,
    ETD_FRAME_BAD_MARKER,
    ETD_FRAME_BAD_CRC,
} etd_frame_result;

/* A frame decoder. `state` is private. */
typedef struct {
    uint8_t *payload;  /* the caller's buffer */
    uint32_t capacity; /* in bytes: mtu + mtu / 254 + 1, as frames are decoded in place */
    uint32_t size;     /* of the frame in bytes, after ETD_FRAME_GOOD */
    uint8_t state;
} etd_frame_decoder;

/* Initializes a decoder. `payload` must hold `capacity` bytes and outlive the decoder. */
void etd_frame_decoder_init(etd_frame_decoder *decoder, uint8_t *payload, uint32_t capacity);

/* Decodes one byte. The frame of a GOOD result is valid until the next call. */
etd_frame_result etd_frame_decode(etd_frame_decoder *decoder, uint8_t byte);

#ifdef __cplusplus
}
#endif

#endif
