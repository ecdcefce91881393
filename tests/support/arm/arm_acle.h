// SPDX-License-Identifier: Apache-2.0
/* The DSP instructions that the kernels use, in C, so that their loops for Cortex-M4 run on any host. */
#ifndef ARM_ACLE_H
#define ARM_ACLE_H

#include <stdint.h>

typedef int32_t int8x4_t;
typedef uint32_t uint8x4_t;
typedef int32_t int16x2_t;

/* A flag for each byte, as __ssub8 sets and __sel reads them. */
static uint32_t greater_or_equal;

static inline int32_t low_half(int16x2_t pair) {
    return (int16_t)((uint32_t)pair & 0xFFFFu);
}

static inline int32_t high_half(int16x2_t pair) {
    return (int16_t)((uint32_t)pair >> 16);
}

static inline int16x2_t join_halves(int32_t low, int32_t high) {
    return (int16x2_t)((uint32_t)high << 16 | ((uint32_t)low & 0xFFFFu));
}

static inline int16x2_t __sxtab16(int16x2_t pair, int8x4_t bytes) {
    const int32_t low = (int8_t)((uint32_t)bytes & 0xFFu);
    const int32_t high = (int8_t)((uint32_t)bytes >> 16 & 0xFFu);
    return join_halves(low_half(pair) + low, high_half(pair) + high);
}

static inline int16x2_t __sxtb16(int8x4_t bytes) {
    return __sxtab16(0, bytes);
}

static inline int32_t __smlabb(int32_t a, int32_t b, int32_t sum) {
    return sum + low_half(a) * low_half(b);
}

static inline int32_t __smlatt(int32_t a, int32_t b, int32_t sum) {
    return sum + high_half(a) * high_half(b);
}

static inline int32_t __smlad(int16x2_t a, int16x2_t b, int32_t sum) {
    return __smlatt(a, b, __smlabb(a, b, sum));
}

static inline int8x4_t __ssub8(int8x4_t a, int8x4_t b) {
    uint32_t differences = 0;
    greater_or_equal = 0;
    for (uint32_t bits = 0; bits < 32; bits += 8) {
        const int32_t difference = (int8_t)((uint32_t)a >> bits) - (int8_t)((uint32_t)b >> bits);
        greater_or_equal |= difference >= 0 ? 0xFFu << bits : 0;
        differences |= ((uint32_t)difference & 0xFFu) << bits;
    }
    return (int8x4_t)differences;
}

static inline uint8x4_t __sel(uint8x4_t a, uint8x4_t b) {
    return (a & greater_or_equal) | (b & ~greater_or_equal);
}

#endif
