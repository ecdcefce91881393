/* Matrices in float32, in whatever order they have in memory. */
#ifndef ET_MATMUL_H
#define ET_MATMUL_H

#include "arguments.h"

typedef struct {
    float *data; /* written only when it is an output */
    int32_t rows;
    int32_t columns;
    int32_t row_step;
    int32_t column_step;
} et_matrix;

/* A tensor of two dimensions, or item `batch` of one of three. */
et_matrix et_matrix_of(const et_tensor *tensor, int32_t batch);

/* Row i of a times column j of b. */
float et_product_at(const et_matrix *a, int32_t i, const et_matrix *b, int32_t j);

/* out = a b */
void et_multiply(const et_matrix *a, const et_matrix *b, const et_matrix *out);

#endif
