// SPDX-License-Identifier: Apache-2.0
#include "matmul.h"

etd_matrix etd_matrix_of(const etd_tensor *tensor, int32_t batch) {
    const uint32_t row = tensor->ndim - 2u;
    const int32_t start = row == 0 ? 0 : batch * tensor->strides[0];
    return (etd_matrix){etd_out_floats(tensor) + start, tensor->sizes[row], tensor->sizes[row + 1],
                        tensor->strides[row], tensor->strides[row + 1]};
}

float etd_product_at(const etd_matrix *a, int32_t i, const etd_matrix *b, int32_t j) {
    const float *row = a->data + i * a->row_step;
    const float *column = b->data + j * b->column_step;
    float sum = 0.0f;
    for (int32_t k = 0; k < a->columns; k++) {
        sum += row[k * a->column_step] * column[k * b->row_step];
    }
    return sum;
}

void etd_multiply(const etd_matrix *a, const etd_matrix *b, const etd_matrix *out) {
    for (int32_t i = 0; i < out->rows; i++) {
        for (int32_t j = 0; j < out->columns; j++) {
            out->data[i * out->row_step + j * out->column_step] = etd_product_at(a, i, b, j);
        }
    }
}
