// SPDX-License-Identifier: Apache-2.0
/* What the hot loops need to know of the CPU and the compiler. */
#ifndef ETD_CPU_H
#define ETD_CPU_H

#include <stdint.h>
#include <string.h>

#define ETD_NOINLINE __attribute__((noinline))
#define ETD_INLINE inline __attribute__((always_inline))

/* Makes the compiler advance four pointers with their loads. GCC otherwise folds the unrolled steps into
 * offsets, which Thumb-2 can only encode in more instructions. Other CPUs have no such loads. */
#if defined(__ARM_ARCH) && __ARM_ARCH >= 7 && defined(__thumb2__)
#define ETD_KEEP_POINTERS(a, b, c, d) __asm__("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d))
#else
#define ETD_KEEP_POINTERS(a, b, c, d) ((void)0)
#endif

/* Makes the compiler keep a pointer that a loop advances, for use after the loop. It otherwise computes where
 * the pointer ends from where it began, which takes another register. */
#define ETD_KEEP_POINTER(pointer) __asm__("" : "+r"(pointer))

/* Makes the compiler load again what a pointer leads to, where it would keep too many sums and products of it
 * for the next round of a loop, in more registers than there are. */
#define ETD_FORGET(pointer) __asm__("" : "+r"(pointer))

/* An FPU whose registers hold float32: Cortex-M4F, M7, M33 and M55. */
#if defined(__arm__) && defined(__ARM_FP) && (__ARM_FP & 4) != 0
#define ETD_VFP 1
#else
#define ETD_VFP 0
#endif

/* Vectors of float32, which compilers use by themselves where numbers are adjacent. */
#if defined(__SSE__) || defined(__aarch64__)
#define ETD_FLOAT_VECTORS 1
#else
#define ETD_FLOAT_VECTORS 0
#endif

/* The DSP extension of Cortex-M4, M7, M33 and M55: two 16-bit products per instruction. These CPUs load words
 * from any address. */
#if defined(__ARM_FEATURE_DSP)
#include <arm_acle.h>
#define ETD_DSP 1

static inline uint32_t etd_word_at(const int8_t *bytes) {
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* Loads the next four bytes. */
static inline uint32_t etd_load_word(const int8_t **bytes) {
    const uint32_t word = etd_word_at(*bytes);
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

/* Returns a pair of equal numbers. */
static inline int16x2_t etd_pair_of(int32_t number) {
    return (int16x2_t)((uint32_t)number << 16 | ((uint32_t)number & 0xFFFFu));
}

/* Returns bytes 0 and 2, or 1 and 3, each added to a number of the pair. */
static inline int16x2_t etd_add_even_bytes(int16x2_t pair, uint32_t word) {
    return __sxtab16(pair, (int8x4_t)word);
}

static inline int16x2_t etd_add_odd_bytes(int16x2_t pair, uint32_t word) {
#if defined(__arm__)
    int16x2_t sums;
    __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(sums) : "r"(pair), "r"(word));
    return sums;
#else
    return __sxtab16(pair, (int8x4_t)(word >> 8 | word << 24));
#endif
}

/* Returns `sum` plus the products of four numbers with the bytes of a word. */
static inline int32_t etd_add_word_products(int16x2_t even, int16x2_t odd, uint32_t word, int32_t sum) {
    sum = __smlad(even, etd_even_bytes(word), sum);
    return __smlad(odd, etd_odd_bytes(word), sum);
}
#else
#define ETD_DSP 0
#endif

/* Helium, the vector extension of Cortex-M55, with integers. */
#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#define ETD_MVE 1
#else
#define ETD_MVE 0
#endif

#endif
