// SPDX-License-Identifier: Apache-2.0
/* Matrices in float32, in whatever order they have in memory. */
#ifndef ETD_MATMUL_H
#define ETD_MATMUL_H

#include "arguments.h"

typedef struct {
    float *data; /* written only when it is an output */
    int32_t rows;
    int32_t columns;
    int32_t row_step;
    int32_t column_step;
} etd_matrix;

/* A tensor of two dimensions, or item `batch` of one of three. */
etd_matrix etd_matrix_of(const etd_tensor *tensor, int32_t batch);

/* Row i of a times column j of b. */
float etd_product_at(const etd_matrix *a, int32_t i, const etd_matrix *b, int32_t j);

/* out = a b */
void etd_multiply(const etd_matrix *a, const etd_matrix *b, const etd_matrix *out);

#endif
