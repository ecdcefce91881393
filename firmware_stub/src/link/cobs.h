// SPDX-License-Identifier: Apache-2.0
/* Consistent Overhead Byte Stuffing (COBS) without delimiters. Private to the link. */
#ifndef ETD_COBS_H
#define ETD_COBS_H

#include <stdbool.h>
#include <stdint.h>

/* Encodes `size` bytes to `out`, which must hold size + size / 254 + 1 bytes. Returns the number of bytes
 * written. */
uint32_t etd_cobs_encode(const uint8_t *bytes, uint32_t size, uint8_t *out);

/* Decodes *size nonzero bytes in place and sets *size to the decoded size. Returns false if a code byte
 * points past the end; the buffer is then undefined. */
bool etd_cobs_decode(uint8_t *bytes, uint32_t *size);

#endif
