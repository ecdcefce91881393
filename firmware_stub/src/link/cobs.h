// SPDX-License-Identifier: Apache-2.0
/* Consistent Overhead Byte Stuffing, without delimiters. Private to the link. */
#ifndef ETD_COBS_H
#define ETD_COBS_H

#include <stdbool.h>
#include <stdint.h>

/* Encodes size bytes to out, at most size + size / 254 + 1 bytes; returns how many. */
uint32_t etd_cobs_encode(const uint8_t *bytes, uint32_t size, uint8_t *out);

/* Decodes *size bytes, none of them zero, in place and makes *size the decoded size. False when a code byte
 * reaches past the end; the bytes are spoilt then. */
bool etd_cobs_decode(uint8_t *bytes, uint32_t *size);

#endif
