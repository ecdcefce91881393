// SPDX-License-Identifier: Apache-2.0
/* What the hot loops need to know of the CPU and the compiler. */
#ifndef ETD_CPU_H
#define ETD_CPU_H

#include <stdint.h>
#include <string.h>

#define ETD_NOINLINE __attribute__((noinline))

/* Makes the compiler advance four pointers with their loads. GCC otherwise folds the unrolled steps into
 * offsets, which Thumb-2 can only encode in more instructions. Other CPUs have no such loads. */
#if defined(__ARM_ARCH) && __ARM_ARCH >= 7 && defined(__thumb2__)
#define ETD_KEEP_POINTERS(a, b, c, d) __asm__("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d))
#else
#define ETD_KEEP_POINTERS(a, b, c, d) ((void)0)
#endif

/* The DSP extension of Cortex-M4, M7, M33 and M55: two 16-bit products per instruction. These CPUs load words
 * from any address. */
#if defined(__ARM_FEATURE_DSP)
#include <arm_acle.h>
#define ETD_DSP 1

/* Loads the next four bytes. */
static inline uint32_t etd_load_word(const int8_t **bytes) {
    uint32_t word;
    memcpy(&word, *bytes, sizeof word);
    *bytes += sizeof word;
    return word;
}

/* Returns bytes 0 and 2 of a word, sign-extended. */
static inline int16x2_t etd_even_bytes(uint32_t word) {
    return __sxtb16((int8x4_t)word);
}

/* Returns bytes 1 and 3 of a word, sign-extended. */
static inline int16x2_t etd_odd_bytes(uint32_t word) {
#if defined(__arm__)
    int16x2_t pair; /* GCC 12 does not merge the rotation into the instruction */
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
    return pair;
#else
    return __sxtb16((int8x4_t)(word >> 8 | word << 24));
#endif
}
#else
#define ETD_DSP 0
#endif

#endif
