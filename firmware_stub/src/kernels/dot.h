// SPDX-License-Identifier: Apache-2.0
/* The innermost loops of int8 kernels: sums of (x + offset) * w, where w may have one too.
 *
 * In a file of their own because inlined into their callers they would spill to the stack on small CPUs. */
#ifndef ETD_DOT_H
#define ETD_DOT_H

#include <stdint.h>

/* Elements one after the other; count is at least 1. */
uint32_t etd_dot_dense(const int8_t *x, const int8_t *w, int32_t count, int32_t offset);

/* How many elements a dot product has, how far apart they are, and what is added to each. */
typedef struct {
    int32_t count;
    int32_t x_step;
    int32_t w_step;
    int32_t x_offset;
    int32_t w_offset;
} etd_dot_steps;

uint32_t etd_dot_offsets(const int8_t *x, const int8_t *w, const etd_dot_steps *steps);

/* Rows of columns, and how far apart they are. */
typedef struct {
    int32_t rows;
    int32_t columns;
    int32_t x_row;
    int32_t x_column;
    int32_t w_row;
    int32_t w_column;
} etd_grid;

uint32_t etd_dot_grid(const int8_t *x, const int8_t *w, const etd_grid *grid, int32_t offset);

#endif
