#include "matmul.h"

et_matrix et_matrix_of(const et_tensor *tensor, int32_t batch) {
    const uint32_t row = tensor->ndim - 2u;
    const int32_t start = row == 0 ? 0 : batch * tensor->strides[0];
    return (et_matrix){et_out_floats(tensor) + start, tensor->sizes[row], tensor->sizes[row + 1],
                       tensor->strides[row], tensor->strides[row + 1]};
}

float et_product_at(const et_matrix *a, int32_t i, const et_matrix *b, int32_t j) {
    const float *row = a->data + i * a->row_step;
    const float *column = b->data + j * b->column_step;
    float sum = 0.0f;
    for (int32_t k = 0; k < a->columns; k++) {
        sum += row[k * a->column_step] * column[k * b->row_step];
    }
    return sum;
}

void et_multiply(const et_matrix *a, const et_matrix *b, const et_matrix *out) {
    for (int32_t i = 0; i < out->rows; i++) {
        for (int32_t j = 0; j < out->columns; j++) {
            out->data[i * out->row_step + j * out->column_step] = et_product_at(a, i, b, j);
        }
    }
}
