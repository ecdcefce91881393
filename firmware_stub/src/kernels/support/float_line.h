// SPDX-License-Identifier: Apache-2.0
/* One vector times a matrix in float32: a linear layer with a single input. Each sum starts at zero and adds
 * its products one after the other, as in float_products.h. */
#ifndef ETD_FLOAT_LINE_H
#define ETD_FLOAT_LINE_H

#include <stdbool.h>
#include <stdint.h>

/* out[j] = alpha * (sum over k of x[k] * w[k][j]) + beta * added[j]. The elements of `x` and of `out` are
 * adjacent. */
typedef struct {
    const float *x;
    const float *w;
    float *out;
    const float *added;
    int32_t added_step;
    float alpha;
    float beta;
    bool is_scaled;    /* false: alpha and beta are 1 */
    uint32_t depth;    /* elements of x */
    int32_t count;     /* elements of out */
    int32_t row_step;  /* from w[k][j] to w[k + 1][j] */
    int32_t line_step; /* from w[k][j] to w[k][j + 1] */
} etd_float_line;

/* Computes all outputs. Either row_step or line_step must be 1. */
void etd_multiply_line(const etd_float_line *line);

#endif
