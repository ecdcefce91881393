// SPDX-License-Identifier: Apache-2.0
#include "int8_taps.h"

#include <string.h>

#include "cpu.h"
#include "int8_rows.h"

/* Adds to the sums of four channels; see etd_convolve_taps. Not inlined, so that the loop has all registers
 * of a small CPU for itself. */
static ETD_NOINLINE void add_taps(const int8_t *x, const int8_t *w, const etd_grid *taps, int32_t offset,
                                  int32_t sums[4]) {
    int32_t s0 = sums[0];
    int32_t s1 = sums[1];
    int32_t s2 = sums[2];
    int32_t s3 = sums[3];
    const int32_t x_step = taps->x_column;
    const int32_t w_step = taps->w_column;
    for (int32_t row = taps->rows; row > 0; row--) {
        const int8_t *x_at = x;
        const int8_t *w_at = w;
#if ETD_DSP
        const int16x2_t offsets = etd_pair_of(offset);
#endif
        for (int32_t column = taps->columns; column > 0; column--) {
#if ETD_DSP
            const uint32_t x_word = etd_word_at(x_at);
            const uint32_t w_word = etd_word_at(w_at);
            const int16x2_t x_even = etd_add_even_bytes(offsets, x_word);
            const int16x2_t w_even = etd_even_bytes(w_word);
            const int16x2_t x_odd = etd_add_odd_bytes(offsets, x_word);
            const int16x2_t w_odd = etd_odd_bytes(w_word);
            s0 = __smlabb(x_even, w_even, s0);
            s2 = __smlatt(x_even, w_even, s2);
            s1 = __smlabb(x_odd, w_odd, s1);
            s3 = __smlatt(x_odd, w_odd, s3);
#else
            s0 += (x_at[0] + offset) * w_at[0];
            s1 += (x_at[1] + offset) * w_at[1];
            s2 += (x_at[2] + offset) * w_at[2];
            s3 += (x_at[3] + offset) * w_at[3];
#endif
            x_at += x_step;
            w_at += w_step;
        }
        x += taps->x_row;
        w += taps->w_row;
    }
    sums[0] = s0;
    sums[1] = s1;
    sums[2] = s2;
    sums[3] = s3;
}

/* As add_taps, with one input channel. */
static ETD_NOINLINE void add_shared_taps(const int8_t *x, const int8_t *w, const etd_grid *taps,
                                         int32_t offset, int32_t sums[4]) {
    int32_t s0 = sums[0];
    int32_t s1 = sums[1];
    int32_t s2 = sums[2];
    int32_t s3 = sums[3];
    const int32_t x_step = taps->x_column;
    const int32_t w_step = taps->w_column;
    for (int32_t row = taps->rows; row > 0; row--) {
        const int8_t *x_at = x;
        const int8_t *w_at = w;
        for (int32_t column = taps->columns; column > 0; column--) {
            const int32_t number = *x_at + offset;
            s0 += number * w_at[0];
            s1 += number * w_at[1];
            s2 += number * w_at[2];
            s3 += number * w_at[3];
            x_at += x_step;
            w_at += w_step;
        }
        x += taps->x_row;
        w += taps->w_row;
    }
    sums[0] = s0;
    sums[1] = s1;
    sums[2] = s2;
    sums[3] = s3;
}

#if ETD_MVE
/* Channels that the loops below compute together. */
#define WIDE 16

/* Adds the products at one tap. Those of even and odd channels are widened apart. */
static inline void add_eight_products(const int8_t *x, const int8_t *w, int32_t offset, int32x4x2_t *sums) {
    const int16x8_t numbers = vaddq_n_s16(vldrbq_s16(x), (int16_t)offset);
    const int16x8_t weights = vldrbq_s16(w);
    sums->val[0] = vaddq_s32(sums->val[0], vmullbq_int_s16(numbers, weights));
    sums->val[1] = vaddq_s32(sums->val[1], vmulltq_int_s16(numbers, weights));
}

/* As add_taps, for `width` channels, 8 or 16. */
static inline void add_wide_taps(const int8_t *x, const int8_t *w, const etd_grid *taps, int32_t offset,
                                 int32_t *sums, int32_t width) {
    const bool is_wide = width == WIDE;
    int32x4x2_t low = vld2q_s32(sums);
    int32x4x2_t high = is_wide ? vld2q_s32(sums + 8) : low;
    const int32_t x_step = taps->x_column;
    const int32_t w_step = taps->w_column;
    for (int32_t row = taps->rows; row > 0; row--) {
        const int8_t *x_at = x;
        const int8_t *w_at = w;
        for (int32_t column = taps->columns; column > 0; column--) {
            add_eight_products(x_at, w_at, offset, &low);
            if (is_wide) {
                add_eight_products(x_at + 8, w_at + 8, offset, &high);
            }
            x_at += x_step;
            w_at += w_step;
        }
        x += taps->x_row;
        w += taps->w_row;
    }
    vst2q_s32(sums, low);
    if (is_wide) {
        vst2q_s32(sums + 8, high);
    }
}

/* As add_shared_taps, for 16 channels. */
static inline void add_wide_shared_taps(const int8_t *x, const int8_t *w, const etd_grid *taps,
                                        int32_t offset, int32_t sums[WIDE]) {
    int32x4_t s0 = vldrwq_s32(sums);
    int32x4_t s1 = vldrwq_s32(sums + 4);
    int32x4_t s2 = vldrwq_s32(sums + 8);
    int32x4_t s3 = vldrwq_s32(sums + 12);
    const int32_t x_step = taps->x_column;
    const int32_t w_step = taps->w_column;
    for (int32_t row = taps->rows; row > 0; row--) {
        const int8_t *x_at = x;
        const int8_t *w_at = w;
        for (int32_t column = taps->columns; column > 0; column--) {
            const int32_t number = *x_at + offset;
            s0 = vmlaq_n_s32(s0, vldrbq_s32(w_at), number);
            s1 = vmlaq_n_s32(s1, vldrbq_s32(w_at + 4), number);
            s2 = vmlaq_n_s32(s2, vldrbq_s32(w_at + 8), number);
            s3 = vmlaq_n_s32(s3, vldrbq_s32(w_at + 12), number);
            x_at += x_step;
            w_at += w_step;
        }
        x += taps->x_row;
        w += taps->w_row;
    }
    vstrwq_s32(sums, s0);
    vstrwq_s32(sums + 4, s1);
    vstrwq_s32(sums + 8, s2);
    vstrwq_s32(sums + 12, s3);
}
#endif

/* Adds the taps of `count` channels to their sums. */
static void add_channels(const int8_t *x, const int8_t *w, const etd_grid *taps, bool is_shared,
                         int32_t offset, int32_t *sums, int32_t count) {
    int32_t i = 0;
#if ETD_MVE
    for (; i + WIDE <= count; i += WIDE) {
        if (is_shared) {
            add_wide_shared_taps(x, w + i, taps, offset, sums + i);
        } else {
            add_wide_taps(x + i, w + i, taps, offset, sums + i, WIDE);
        }
    }
    if (!is_shared && i + WIDE / 2 <= count) {
        add_wide_taps(x + i, w + i, taps, offset, sums + i, WIDE / 2);
        i += WIDE / 2;
    }
#endif
    for (; i + 4 <= count; i += 4) {
        if (is_shared) {
            add_shared_taps(x, w + i, taps, offset, sums + i);
        } else {
            add_taps(x + i, w + i, taps, offset, sums + i);
        }
    }
    for (; i < count; i++) {
        sums[i] += (int32_t)etd_dot_grid(is_shared ? x : x + i, w + i, taps, offset);
    }
}

void etd_convolve_taps(const int8_t *x, const int8_t *w, const etd_grid *taps, bool is_shared, int32_t offset,
                       const etd_output_stage *stage, int32_t channels, int8_t *y) {
    for (int32_t first = 0; first < channels; first += ETD_ROW_BLOCK) {
        const int32_t count = channels - first < ETD_ROW_BLOCK ? channels - first : ETD_ROW_BLOCK;
        int32_t sums[ETD_ROW_BLOCK];
        if (stage->bias != NULL) {
            memcpy(sums, stage->bias + first, (size_t)count * sizeof sums[0]);
        } else {
            memset(sums, 0, sizeof sums);
        }
        add_channels(is_shared ? x : x + first, w + first, taps, is_shared, offset, sums, count);
        etd_finish_many(stage, first, sums, count, y + first);
    }
}

#if ETD_MVE || ETD_DSP
/* Numbers of which the sum fits 16 bits. */
#define SHORT_SUM 255

/* As etd_add_up, for the next channels that are added together. Returns how many these are. */
static ETD_NOINLINE int32_t add_up_together(const int8_t *x, const etd_grid *taps, int32_t *sums,
                                            int32_t count) {
#if ETD_MVE
    const mve_pred16_t inside = vctp16q((uint32_t)count);
    int16x8_t totals = vdupq_n_s16(0);
#else
    int16x2_t even = 0;
    int16x2_t odd = 0;
    if (count < 4) {
        return 0;
    }
#endif
    for (int32_t row = taps->rows; row > 0; row--) {
        const int8_t *at = x;
        for (int32_t column = taps->columns; column > 0; column--) {
#if ETD_MVE
            totals = vaddq_s16(totals, vldrbq_z_s16(at, inside));
#else
            even = etd_add_even_bytes(even, etd_word_at(at));
            odd = etd_add_odd_bytes(odd, etd_word_at(at));
#endif
            at += taps->x_column;
        }
        x += taps->x_row;
    }
#if ETD_MVE
    const int32x4x2_t wide = {{vmovlbq_s16(totals), vmovltq_s16(totals)}};
    vst2q_s32(sums, wide);
    return count < 8 ? count : 8;
#else
    sums[0] = (int16_t)even;
    sums[1] = (int16_t)odd;
    sums[2] = (int16_t)((uint32_t)even >> 16);
    sums[3] = (int16_t)((uint32_t)odd >> 16);
    return 4;
#endif
}
#endif

void etd_add_up(const int8_t *x, const etd_grid *taps, int32_t *sums, int32_t count) {
    int32_t i = 0;
#if ETD_MVE || ETD_DSP
    int32_t done = taps->rows * taps->columns <= SHORT_SUM ? 1 : 0;
    while (i < count && done != 0) {
        done = add_up_together(x + i, taps, sums + i, count - i);
        i += done;
    }
#endif
    for (; i < count; i++) {
        const int8_t *row_at = x + i;
        int32_t sum = 0;
        for (int32_t row = taps->rows; row > 0; row--) {
            const int8_t *at = row_at;
            for (int32_t column = taps->columns; column > 0; column--) {
                sum += *at;
                at += taps->x_column;
            }
            row_at += taps->x_row;
        }
        sums[i] = sum;
    }
}

void etd_take_larger(int8_t *y, const int8_t *x, int32_t count) {
    int32_t i = 0;
#if ETD_MVE
    for (; i < count; i += WIDE) {
        const mve_pred16_t inside = vctp8q((uint32_t)(count - i));
        vstrbq_p_s8(y + i, vmaxq_s8(vldrbq_z_s8(y + i, inside), vldrbq_z_s8(x + i, inside)), inside);
    }
#elif ETD_DSP
    for (; i + 4 <= count; i += 4) {
        const int8x4_t a = (int8x4_t)etd_word_at(y + i);
        const int8x4_t b = (int8x4_t)etd_word_at(x + i);
        (void)__ssub8(a, b); /* sets a flag for each byte of `a` that is not smaller */
        const uint32_t larger = __sel((uint8x4_t)a, (uint8x4_t)b);
        memcpy(y + i, &larger, sizeof larger);
    }
#endif
    for (; i < count; i++) {
        y[i] = x[i] > y[i] ? x[i] : y[i];
    }
}
