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

/* Returns the product of row i of a and column j of b. */
float etd_product_at(const etd_matrix *a, int32_t i, const etd_matrix *b, int32_t j);

/* Computes out = a b. */
void etd_multiply(const etd_matrix *a, const etd_matrix *b, const etd_matrix *out);

#endif
