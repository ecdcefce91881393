// SPDX-License-Identifier: Apache-2.0
#include "int8_rows.h"

#include <string.h>

#include "cpu.h"

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

void etd_start_rows(etd_row_block *rows, const etd_tensor *weight, const etd_output_stage *stage,
                    int32_t first, int32_t offset) {
    const int32_t channels = weight->sizes[0];
    rows->count = channels - first < ETD_ROW_BLOCK ? channels - first : ETD_ROW_BLOCK;
    rows->length = (int32_t)(etd_numel(weight) / (uint32_t)channels);
    rows->weights = etd_int8s(weight) + first * rows->length;
    rows->stage = *stage;
    rows->stage.multipliers += first;
    rows->stage.shifts += first;
    const int8_t *w = rows->weights;
    for (int32_t row = 0; row < rows->count; row++) {
        int32_t sum = 0;
        for (const int8_t *end = w + rows->length; w != end; w++) {
            sum += *w;
        }
        rows->sums[row] = offset * sum + (stage->bias != NULL ? stage->bias[first + row] : 0);
    }
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

void etd_add_four_rows(const int8_t *const w[4], const int8_t *x, int32_t length, int32_t offset,
                       int32_t sums[4]) {
    const int8_t *w0 = w[0];
    const int8_t *w1 = w[1];
    const int8_t *w2 = w[2];
    const int8_t *w3 = w[3];
    int32_t s0 = sums[0];
    int32_t s1 = sums[1];
    int32_t s2 = sums[2];
    int32_t s3 = sums[3];
    const int8_t *end = x + length;
#if ETD_DSP
    const int8_t *four = x + (length & ~3);
    const int16x2_t offsets = etd_pair_of(offset);
    while (x != four) {
        const uint32_t x_word = etd_load_word(&x);
        const int16x2_t x_even = etd_add_even_bytes(offsets, x_word);
        const int16x2_t x_odd = etd_add_odd_bytes(offsets, x_word);
        s0 = etd_add_word_products(x_even, x_odd, etd_load_word(&w0), s0);
        s1 = etd_add_word_products(x_even, x_odd, etd_load_word(&w1), s1);
        s2 = etd_add_word_products(x_even, x_odd, etd_load_word(&w2), s2);
        s3 = etd_add_word_products(x_even, x_odd, etd_load_word(&w3), s3);
    }
#endif
    while (x != end) {
        const int32_t number = *x++ + offset;
        s0 += number * *w0++;
        s1 += number * *w1++;
        s2 += number * *w2++;
        s3 += number * *w3++;
        ETD_KEEP_POINTERS(w0, w1, w2, w3);
    }
    sums[0] = s0;
    sums[1] = s1;
    sums[2] = s2;
    sums[3] = s3;
}
