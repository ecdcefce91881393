// SPDX-License-Identifier: Apache-2.0
/* Float32 matrices with any memory layout. */
#ifndef ETD_MATMUL_H
#define ETD_MATMUL_H

#include "arguments.h"

typedef struct {
    float *data; /* written only if it is an output */
    int32_t rows;
    int32_t columns;
    int32_t row_step;
    int32_t column_step;
} etd_matrix;

/* Returns a two-dimensional tensor, or item `batch` of a three-dimensional one, as a matrix. */
etd_matrix etd_matrix_of(const etd_tensor *tensor, int32_t batch);

/* Added to a product: out = alpha * product + beta * addend. */
typedef struct {
    const float *data;
    int32_t row_step; /* 0: the same for all rows */
    int32_t column_step;
    float alpha;
    float beta;
} etd_addend;

/* Computes out = a b, plus the addend if it is not NULL. */
void etd_multiply(const etd_matrix *a, const etd_matrix *b, const etd_addend *addend, const etd_matrix *out);

#endif
