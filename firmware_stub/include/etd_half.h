// SPDX-License-Identifier: Apache-2.0
/* Numbers of 16 bits, float16 and bfloat16, as float32, and back. */
#ifndef ETD_HALF_H
#define ETD_HALF_H

#include <stdbool.h>
#include <stdint.h>

/* A float and its bits. */
typedef union {
    float real;
    uint32_t bits;
} etd_float_bits;

/* Returns a float16 or bfloat16 number. */
static inline float etd_widen(uint16_t stored, bool is_bfloat16) {
    const uint32_t smallest = 113u << 23; /* 2^-14, the smallest float16 that is not denormal */
    const uint32_t sign = ((uint32_t)stored & 0x8000u) << 16;
    etd_float_bits number;
    etd_float_bits least;
    number.bits = (uint32_t)stored << 16;
    if (is_bfloat16) {
        return number.real;
    }
    const uint32_t exponent = stored & 0x7C00u;
    number.bits = (((uint32_t)stored & 0x7FFFu) << 13) + (112u << 23);
    if (exponent == 0x7C00u) {
        number.bits += 112u << 23; /* infinity or NaN */
    } else if (exponent == 0) {
        number.bits += 1u << 23;
        least.bits = smallest;
        number.real -= least.real;
    }
    number.bits |= sign;
    return number.real;
}

/* Returns the nearest float16 or bfloat16 number, ties to even. */
static inline uint16_t etd_narrow(float real, bool is_bfloat16) {
    etd_float_bits number;
    number.real = real;
    if (real != real) {
        return is_bfloat16 ? 0x7FC0u : 0x7E00u;
    }
    if (is_bfloat16) {
        return (uint16_t)((number.bits + 0x7FFFu + ((number.bits >> 16) & 1u)) >> 16);
    }
    const uint32_t sign = (number.bits >> 16) & 0x8000u;
    number.bits &= 0x7FFFFFFFu;
    if (number.bits >= 0x47800000u) { /* 2^16 */
        return (uint16_t)(sign | 0x7C00u);
    }
    if (number.bits < 113u << 23) {
        number.real += 0.5f; /* its last bit is that of a denormal float16 */
        return (uint16_t)(sign | (number.bits - 0x3F000000u));
    }
    const uint32_t rounded = number.bits - (112u << 23) + 0xFFFu + ((number.bits >> 13) & 1u);
    return (uint16_t)(sign | (rounded >> 13));
}

#endif
