// SPDX-License-Identifier: Apache-2.0
#include "int8_rows.h"

#include <stdbool.h>
#include <string.h>

#include "cpu.h"

/* Returns the sum of a row of weights. */
static int32_t add_weights(const int8_t *w, int32_t length) {
    int32_t sum = 0;
#if ETD_MVE
    for (int32_t blocks = length / 16; blocks > 0; blocks--) {
        sum = vaddvaq_s8(sum, vldrbq_s8(w));
        w += 16;
    }
    if (length % 16 != 0) { /* what is beyond the end is not loaded, and counts as zero */
        sum = vaddvaq_s8(sum, vldrbq_z_s8(w, vctp8q((uint32_t)length % 16u)));
    }
#else
    for (const int8_t *end = w + length; w != end; w++) {
        sum += *w;
    }
#endif
    return sum;
}

void etd_start_rows(etd_row_block *rows, const etd_tensor *weight, const etd_output_stage *stage,
                    int32_t first, int32_t end, int32_t offset) {
    rows->count = end - first < ETD_ROW_BLOCK ? end - first : ETD_ROW_BLOCK;
    rows->length = (int32_t)(etd_numel(weight) / (uint32_t)weight->sizes[0]);
    rows->weights = etd_int8s(weight) + first * rows->length;
    memset(rows->sums, 0, sizeof rows->sums);
    rows->stage = *stage;
    rows->stage.multipliers += first;
    rows->stage.shifts += first;
    for (int32_t row = 0; row < rows->count; row++) {
        const int32_t sum = add_weights(rows->weights + row * rows->length, rows->length);
        rows->sums[row] = offset * sum + (stage->bias != NULL ? stage->bias[first + row] : 0);
    }
}

#if ETD_MVE
/* As etd_scale_fast, for four channels. */
static inline int32x4_t scale_four(const etd_output_stage *stage, int32x4_t sums, int32x4_t multipliers,
                                   int32x4_t shifts) {
    int32x4_t high = vqrdmulhq_s32(sums, multipliers);
    high = vaddq_s32(high, vshrq_n_s32(high, 31)); /* ties away from zero */
    /* A shift by a negative number of bits is one to the right that rounds ties up. */
    high = vaddq_n_s32(vrshlq_s32(high, shifts), stage->offset);
    return vminq_s32(vmaxq_s32(high, vdupq_n_s32(stage->min)), vdupq_n_s32(stage->max));
}
#endif

void etd_finish_many(const etd_output_stage *stage, int32_t first, const int32_t *sums, int32_t count,
                     int8_t *y) {
    const etd_output_stage local = *stage; /* a copy, which no output can overwrite */
    const int32_t *multipliers = local.multipliers + first;
    const int32_t *shifts = local.shifts + first;
#if ETD_MVE
    int32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        vstrbq_s32(y + i, scale_four(&local, vldrwq_s32(sums + i), vldrwq_s32(multipliers + i),
                                     vldrwq_s32(shifts + i)));
    }
    if (i < count) {
        const mve_pred16_t inside = vctp32q((uint32_t)(count - i));
        const int32x4_t scaled =
            scale_four(&local, vldrwq_z_s32(sums + i, inside), vldrwq_z_s32(multipliers + i, inside),
                       vldrwq_z_s32(shifts + i, inside));
        vstrbq_p_s32(y + i, scaled, inside);
    }
#else
    for (int32_t i = 0; i < count; i++) {
        y[i] = etd_scale_fast(sums[i], multipliers[i], shifts[i], local.offset, local.min, local.max);
    }
#endif
}

#if ETD_MVE
/* Adds the products of 16 weights with as many numbers, and with the addend if there is one. */
static ETD_INLINE int32_t add_sixteen(int32_t sum, int8x16_t weights, int8x16_t numbers, bool has_addend,
                                      int8x16_t addend) {
    sum = vmladavaq_s8(sum, numbers, weights);
    return has_addend ? vmladavaq_s8(sum, addend, weights) : sum;
}

/* Adds to each sum the products of one row of weights with x. With an addend, x is first combined with `flip`
 * by an exclusive or. Inlined, so that sums stay in registers. */
static ETD_INLINE void add_four_products(const int8_t *w0, const int8_t *w1, const int8_t *w2,
                                         const int8_t *w3, const int8_t *x, int32_t length, bool has_addend,
                                         int8x16_t flip, int8x16_t addend, int32_t sums[4]) {
    int32_t s0 = sums[0];
    int32_t s1 = sums[1];
    int32_t s2 = sums[2];
    int32_t s3 = sums[3];
    for (uint32_t blocks = (uint32_t)length / 16u; blocks > 0; blocks--) {
        int8x16_t numbers = vldrbq_s8(x);
        numbers = has_addend ? veorq_s8(numbers, flip) : numbers;
        s0 = add_sixteen(s0, vldrbq_s8(w0), numbers, has_addend, addend);
        s1 = add_sixteen(s1, vldrbq_s8(w1), numbers, has_addend, addend);
        s2 = add_sixteen(s2, vldrbq_s8(w2), numbers, has_addend, addend);
        s3 = add_sixteen(s3, vldrbq_s8(w3), numbers, has_addend, addend);
        x += 16;
        w0 += 16;
        w1 += 16;
        w2 += 16;
        w3 += 16;
        ETD_KEEP_POINTERS(w0, w1, w2, w3);
    }
    const uint32_t rest = (uint32_t)length % 16u;
    if (rest != 0) { /* weights beyond the end are not loaded, and count as zero */
        const mve_pred16_t inside = vctp8q(rest);
        int8x16_t numbers = vldrbq_z_s8(x, inside);
        numbers = has_addend ? veorq_s8(numbers, flip) : numbers;
        s0 = add_sixteen(s0, vldrbq_z_s8(w0, inside), numbers, has_addend, addend);
        s1 = add_sixteen(s1, vldrbq_z_s8(w1, inside), numbers, has_addend, addend);
        s2 = add_sixteen(s2, vldrbq_z_s8(w2, inside), numbers, has_addend, addend);
        s3 = add_sixteen(s3, vldrbq_z_s8(w3, inside), numbers, has_addend, addend);
    }
    sums[0] = s0;
    sums[1] = s1;
    sums[2] = s2;
    sums[3] = s3;
}

/* Not inlined, so that the loop has all registers for itself. */
static ETD_NOINLINE void add_plain_products(const int8_t *w0, const int8_t *w1, const int8_t *w2,
                                            const int8_t *w3, const int8_t *x, int32_t length,
                                            int32_t sums[4]) {
    const int8x16_t zero = vdupq_n_s8(0);
    add_four_products(w0, w1, w2, w3, x, length, false, zero, zero, sums);
}

/* Adds the products at all taps. Inlined twice, with offset and without. */
static ETD_INLINE void add_segments(const int8_t *const w[4], const int8_t *x, int32_t length,
                                    const etd_grid *taps, bool has_addend, int8x16_t flip, int8x16_t addend,
                                    int32_t sums[4]) {
    int32_t w_row = 0;
    for (int32_t row = taps->rows; row > 0; row--) {
        const int8_t *x_at = x;
        int32_t w_at = w_row;
        for (int32_t column = taps->columns; column > 0; column--) {
            add_four_products(w[0] + w_at, w[1] + w_at, w[2] + w_at, w[3] + w_at, x_at, length, has_addend,
                              flip, addend, sums);
            x_at += taps->x_column;
            w_at += taps->w_column;
        }
        x += taps->x_row;
        w_row += taps->w_row;
    }
}

void etd_add_four_segments(const int8_t *const w[4], const int8_t *x, int32_t length, const etd_grid *taps,
                           int32_t offset, int32_t sums[4]) {
    /* x + offset needs more than 8 bits, so weights are multiplied with both. Of 128, which is no int8, the
     * opposite is: -(x + offset) = ~x + (1 - offset). */
    const bool is_opposite = offset > INT8_MAX;
    const int8x16_t flip = vdupq_n_s8(is_opposite ? -1 : 0);
    const int8x16_t addend = vdupq_n_s8((int8_t)(is_opposite ? 1 - offset : offset));
    if (offset == 0) {
        add_segments(w, x, length, taps, false, flip, addend, sums);
        return;
    }
    int32_t totals[4] = {0};
    add_segments(w, x, length, taps, true, flip, addend, totals);
    for (int32_t i = 0; i < 4; i++) {
        sums[i] += is_opposite ? -totals[i] : totals[i];
    }
}

/* Multiplies the rows with one column; sums[i] is that of row i. */
static void multiply_column(const etd_row_block *rows, const int8_t *x, int32_t sums[ETD_ROW_BLOCK]) {
    const int32_t length = rows->length;
    const int8_t *w = rows->weights;
    int32_t row = 0;
    const int32_t padded = (rows->count + 3) / 4 * 4;
    memcpy(sums, rows->sums, (size_t)padded * sizeof sums[0]);
    for (; row + 4 <= rows->count; row += 4) {
        add_plain_products(w, w + length, w + 2 * length, w + 3 * length, x, length, sums + row);
        w += 4 * length;
    }
    if (row < rows->count) { /* missing rows repeat the first one of the last four */
        const int32_t left = rows->count - row;
        add_plain_products(w, left > 1 ? w + length : w, left > 2 ? w + 2 * length : w, w, x, length,
                           sums + row);
    }
}

void etd_multiply_rows(const etd_row_block *rows, const int8_t *const x[2], int8_t *const y[2]) {
    const int32_t columns = x[0] == x[1] ? 1 : 2;
    for (int32_t column = 0; column < columns; column++) {
        int32_t sums[ETD_ROW_BLOCK];
        multiply_column(rows, x[column], sums);
        etd_finish_many(&rows->stage, 0, sums, rows->count, y[column]);
    }
}
#else
/* Sums of two rows with two columns: each element that is loaded is used twice. */
typedef struct {
    int32_t row0_column0;
    int32_t row0_column1;
    int32_t row1_column0;
    int32_t row1_column1;
} etd_sums;

/* One element of each row and column. A macro, because GCC unrolls no loop that has an assembler statement.
 */
#define ADD_NEXT_PRODUCTS()                                                                                  \
    do {                                                                                                     \
        const int32_t a = *w0++;                                                                             \
        const int32_t b = *w1++;                                                                             \
        const int32_t c = *x0++;                                                                             \
        const int32_t d = *x1++;                                                                             \
        s00 += a * c;                                                                                        \
        s01 += a * d;                                                                                        \
        s10 += b * c;                                                                                        \
        s11 += b * d;                                                                                        \
        ETD_KEEP_POINTERS(w0, w1, x0, x1);                                                                   \
    } while (0)

/* Not inlined, so that the loop has all registers of a small CPU for itself; `sums` comes last to be on the
 * stack. */
static ETD_NOINLINE void add_products(const int8_t *w0, const int8_t *w1, const int8_t *x0, const int8_t *x1,
                                      int32_t count, etd_sums *sums) {
    int32_t s00 = sums->row0_column0;
    int32_t s01 = sums->row0_column1;
    int32_t s10 = sums->row1_column0;
    int32_t s11 = sums->row1_column1;
    const int8_t *four = w0 + (count & ~3);
    while (w0 != four) {
#if ETD_DSP
        /* In this order 14 registers are enough. */
        const uint32_t w0_word = etd_load_word(&w0);
        const int16x2_t w0_even = etd_even_bytes(w0_word);
        const int16x2_t w0_odd = etd_odd_bytes(w0_word);
        const uint32_t w1_word = etd_load_word(&w1);
        const int16x2_t w1_even = etd_even_bytes(w1_word);
        const int16x2_t w1_odd = etd_odd_bytes(w1_word);
        const uint32_t x0_word = etd_load_word(&x0);
        const int16x2_t x0_even = etd_even_bytes(x0_word);
        const int16x2_t x0_odd = etd_odd_bytes(x0_word);
        s00 = __smlad(w0_even, x0_even, s00);
        s10 = __smlad(w1_even, x0_even, s10);
        s00 = __smlad(w0_odd, x0_odd, s00);
        s10 = __smlad(w1_odd, x0_odd, s10);
        const uint32_t x1_word = etd_load_word(&x1);
        const int16x2_t x1_even = etd_even_bytes(x1_word);
        const int16x2_t x1_odd = etd_odd_bytes(x1_word);
        s01 = __smlad(w0_even, x1_even, s01);
        s11 = __smlad(w1_even, x1_even, s11);
        s01 = __smlad(w0_odd, x1_odd, s01);
        s11 = __smlad(w1_odd, x1_odd, s11);
#else
        ADD_NEXT_PRODUCTS();
        ADD_NEXT_PRODUCTS();
        ADD_NEXT_PRODUCTS();
        ADD_NEXT_PRODUCTS();
#endif
    }
    for (int32_t rest = count & 3; rest > 0; rest--) {
        ADD_NEXT_PRODUCTS();
    }
    *sums = (etd_sums){s00, s01, s10, s11};
}

/* Writes one row's outputs for two columns. */
static void finish_row(const etd_output_stage *stage, int32_t row, int32_t sum0, int32_t sum1,
                       int8_t *const y[2]) {
    const int8_t y0 = etd_finish_fast(stage, row, sum0);
    const int8_t y1 = etd_finish_fast(stage, row, sum1);
    y[0][row] = y0;
    y[1][row] = y1;
}

void etd_multiply_rows(const etd_row_block *rows, const int8_t *const x[2], int8_t *const y[2]) {
    const int8_t *w = rows->weights;
    const int32_t length = rows->length;
    const etd_output_stage stage = rows->stage; /* a copy, which no output can overwrite */
    for (int32_t row = 0; row < rows->count; row += 2) {
        /* A last row without a second one is computed twice. */
        const int32_t next = row + 1 < rows->count ? row + 1 : row;
        const int32_t start = rows->sums[row];
        const int32_t next_start = rows->sums[next];
        etd_sums sums = {start, start, next_start, next_start};
        add_products(w, w + (next - row) * length, x[0], x[1], length, &sums);
        finish_row(&stage, row, sums.row0_column0, sums.row0_column1, y);
        finish_row(&stage, next, sums.row1_column0, sums.row1_column1, y);
        w += 2 * length;
    }
}

void etd_add_four_segments(const int8_t *const w[4], const int8_t *x, int32_t length, const etd_grid *taps,
                           int32_t offset, int32_t sums[4]) {
    const int8_t *w0 = w[0];
    const int8_t *w1 = w[1];
    const int8_t *w2 = w[2];
    const int8_t *w3 = w[3];
    int32_t s0 = sums[0];
    int32_t s1 = sums[1];
    int32_t s2 = sums[2];
    int32_t s3 = sums[3];
    for (int32_t row = taps->rows; row > 0; row--) {
        for (int32_t column = taps->columns; column > 0; column--) {
#if ETD_DSP
            const int16x2_t offsets = etd_pair_of(offset);
            for (int32_t words = length / 4; words > 0; words--) {
                const uint32_t x_word = etd_load_word(&x);
                const int16x2_t x_even = etd_add_even_bytes(offsets, x_word);
                const int16x2_t x_odd = etd_add_odd_bytes(offsets, x_word);
                s0 = etd_add_word_products(x_even, x_odd, etd_load_word(&w0), s0);
                s1 = etd_add_word_products(x_even, x_odd, etd_load_word(&w1), s1);
                s2 = etd_add_word_products(x_even, x_odd, etd_load_word(&w2), s2);
                s3 = etd_add_word_products(x_even, x_odd, etd_load_word(&w3), s3);
                ETD_KEEP_POINTER(x);
                ETD_KEEP_POINTERS(w0, w1, w2, w3);
            }
            for (int32_t rest = length & 3; rest > 0; rest--) {
#else
            for (int32_t rest = length; rest > 0; rest--) {
#endif
                const int32_t number = *x++ + offset;
                s0 += number * *w0++;
                s1 += number * *w1++;
                s2 += number * *w2++;
                s3 += number * *w3++;
                ETD_KEEP_POINTER(x);
                ETD_KEEP_POINTERS(w0, w1, w2, w3);
            }
            x += taps->x_column - length;
            const int32_t step = taps->w_column - length;
            w0 += step;
            w1 += step;
            w2 += step;
            w3 += step;
            ETD_KEEP_POINTERS(w0, w1, w2, w3);
        }
        x += taps->x_row - taps->columns * taps->x_column;
        const int32_t step = taps->w_row - taps->columns * taps->w_column;
        w0 += step;
        w1 += step;
        w2 += step;
        w3 += step;
    }
    sums[0] = s0;
    sums[1] = s1;
    sums[2] = s2;
    sums[3] = s3;
}
#endif

void etd_add_four_rows(const int8_t *const w[4], const int8_t *x, int32_t length, int32_t offset,
                       int32_t sums[4]) {
    const etd_grid one = {.rows = 1, .columns = 1};
    etd_add_four_segments(w, x, length, &one, offset, sums);
}
