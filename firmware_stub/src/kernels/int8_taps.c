// SPDX-License-Identifier: Apache-2.0
#include "int8_taps.h"

#include <string.h>

#include "cpu.h"

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

void etd_convolve_taps(const int8_t *x, const int8_t *w, const etd_grid *taps, bool is_shared, int32_t offset,
                       const etd_output_stage *stage, int32_t channels, int8_t *y) {
    const etd_output_stage local = *stage; /* a copy, which no output can overwrite */
    int32_t channel = 0;
    for (; channel + 4 <= channels; channel += 4) {
        int32_t sums[4] = {0};
        if (local.bias != NULL) {
            memcpy(sums, local.bias + channel, sizeof sums);
        }
        if (is_shared) {
            add_shared_taps(x, w + channel, taps, offset, sums);
        } else {
            add_taps(x + channel, w + channel, taps, offset, sums);
        }
        for (int32_t i = 0; i < 4; i++) {
            y[channel + i] = etd_finish_fast(&local, channel + i, sums[i]);
        }
    }
    for (; channel < channels; channel++) {
        const int8_t *x_at = is_shared ? x : x + channel;
        y[channel] = etd_finish(stage, channel, etd_dot_grid(x_at, w + channel, taps, offset));
    }
}
