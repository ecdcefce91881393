// SPDX-License-Identifier: Apache-2.0
/* The inner loops of int8 matrix products: rows of weights times columns of inputs.
 *
 * They are written for three kinds of CPU, chosen when compiled: Helium, the DSP extension of Cortex-M, and
 * all others, which load single bytes and therefore accept any alignment. Everything above them is shared.
 * Sums must not overflow; see etd_is_fast_stage. */
#ifndef ETD_INT8_ROWS_H
#define ETD_INT8_ROWS_H

#include "dot.h"
#include "requantize.h"

/* Output channels that are prepared together, so that their sums fit the stack. */
#define ETD_ROW_BLOCK 64

/* A block of rows of weights, each for one output channel. */
typedef struct {
    const int8_t *weights; /* `count` rows of `length` elements */
    int32_t count;
    int32_t length;
    int32_t sums[ETD_ROW_BLOCK]; /* where the sum of each row starts: bias + offset * sum of its weights */
    etd_output_stage stage;      /* of the first row */
} etd_row_block;

/* Prepares the rows from `first` to `end`, at most ETD_ROW_BLOCK. The input offset moves into the
 * sums: sum((x + offset) * w) is sum(x * w) + offset * sum(w). */
void etd_start_rows(etd_row_block *rows, const etd_tensor *weight, const etd_output_stage *stage,
                    int32_t first, int32_t end, int32_t offset);

/* Multiplies the rows with two columns and writes one output per row to y[0] and y[1]. The columns may be the
 * same. Uses about 100 bytes of stack, with Helium
 * 350. */
void etd_multiply_rows(const etd_row_block *rows, const int8_t *const x[2], int8_t *const y[2]);

/* Adds to each sum the products of one row of weights with (x + offset). Uses about 50 bytes of stack. */
void etd_add_four_rows(const int8_t *const w[4], const int8_t *x, int32_t length, int32_t offset,
                       int32_t sums[4]);

/* As etd_add_four_rows, for all taps of a grid: each has `length` adjacent elements of x and of each row. */
void etd_add_four_segments(const int8_t *const w[4], const int8_t *x, int32_t length, const etd_grid *taps,
                           int32_t offset, int32_t sums[4]);

/* Writes adjacent outputs for sums that include the bias, from channel `first` of the stage on. */
void etd_finish_many(const etd_output_stage *stage, int32_t first, const int32_t *sums, int32_t count,
                     int8_t *y);

#endif
