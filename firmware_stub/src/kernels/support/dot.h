// SPDX-License-Identifier: Apache-2.0
/* Inner loops of the int8 kernels: sums of (x + offset) * w, or of (x + offset) * (w + offset).
 *
 * They are in a file of their own, because inlining them makes small CPUs spill registers to the stack. */
#ifndef ETD_DOT_H
#define ETD_DOT_H

#include <stdint.h>

/* Contiguous elements; `count` must be at least 1. */
uint32_t etd_dot_dense(const int8_t *x, const int8_t *w, int32_t count, int32_t offset);

/* Number of elements, their distances in memory, and the offsets added to them. */
typedef struct {
    int32_t count;
    int32_t x_step;
    int32_t w_step;
    int32_t x_offset;
    int32_t w_offset;
} etd_dot_steps;

uint32_t etd_dot_offsets(const int8_t *x, const int8_t *w, const etd_dot_steps *steps);

/* Number of rows and columns, and their distances in memory. */
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
