// SPDX-License-Identifier: Apache-2.0
#include "cobs.h"

/* A code byte n stands for n - 1 bytes and a zero; 255 stands for 254 bytes without a zero. */
#define LONGEST_RUN 255u

uint32_t etd_cobs_encode(const uint8_t *bytes, uint32_t size, uint8_t *out) {
    uint32_t code_at = 0;
    uint32_t length = 1;
    for (uint32_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            out[length++] = bytes[i];
            /* A full run at the end needs no further code byte. */
            if (length - code_at < LONGEST_RUN || i + 1 == size) {
                continue;
            }
        }
        out[code_at] = (uint8_t)(length - code_at);
        code_at = length++;
    }
    out[code_at] = (uint8_t)(length - code_at);
    return length;
}

bool etd_cobs_decode(uint8_t *bytes, uint32_t *size) {
    uint32_t in = 0;
    uint32_t out = 0;
    while (in < *size) {
        uint32_t code = bytes[in++];
        if (code - 1u > *size - in) {
            return false;
        }
        for (uint32_t end = in + code - 1u; in < end;) {
            bytes[out++] = bytes[in++];
        }
        if (code < LONGEST_RUN && in < *size) {
            bytes[out++] = 0;
        }
    }
    *size = out;
    return true;
}
