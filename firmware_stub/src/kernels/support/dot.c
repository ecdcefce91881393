// SPDX-License-Identifier: Apache-2.0
#include "dot.h"

/* These loops are written so that the compiler needs the fewest instructions. */

uint32_t etd_dot_dense(const int8_t *x, const int8_t *w, int32_t count, int32_t offset) {
    const int8_t *end = w + count;
    uint32_t sum = 0;
    do {
        sum += (uint32_t)((*x++ + offset) * *w++);
    } while (w != end);
    return sum;
}

uint32_t etd_dot_offsets(const int8_t *x, const int8_t *w, const etd_dot_steps *steps) {
    const int32_t x_step = steps->x_step;
    const int32_t w_step = steps->w_step;
    const int32_t x_offset = steps->x_offset;
    const int32_t w_offset = steps->w_offset;
    uint32_t sum = 0;
    for (int32_t i = steps->count; i > 0; i--) {
        sum += (uint32_t)((*x + x_offset) * (*w + w_offset));
        x += x_step;
        w += w_step;
    }
    return sum;
}

uint32_t etd_dot_grid(const int8_t *x, const int8_t *w, const etd_grid *grid, int32_t offset) {
    const int32_t x_column = grid->x_column;
    const int32_t w_column = grid->w_column;
    uint32_t sum = 0;
    if (grid->columns <= 0) {
        return 0;
    }
    for (int32_t row = grid->rows; row > 0; row--) {
        const int8_t *x_at = x;
        const int8_t *w_at = w;
        int32_t column = grid->columns;
        do {
            sum += (uint32_t)((*x_at + offset) * *w_at);
            x_at += x_column;
            w_at += w_column;
        } while (--column != 0);
        x += grid->x_row;
        w += grid->w_row;
    }
    return sum;
}
