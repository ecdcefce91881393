// SPDX-License-Identifier: Apache-2.0
#include "matmul.h"

#include "float_products.h"

etd_matrix etd_matrix_of(const etd_tensor *tensor, int32_t batch) {
    const uint32_t row = tensor->ndim - 2u;
    const int32_t start = row == 0 ? 0 : batch * tensor->strides[0];
    return (etd_matrix){etd_out_floats(tensor) + start, tensor->sizes[row], tensor->sizes[row + 1],
                        tensor->strides[row], tensor->strides[row + 1]};
}

void etd_multiply(const etd_matrix *a, const etd_matrix *b, const etd_addend *addend, const etd_matrix *out) {
    const etd_sum_loop loops[ETD_SUM_LOOPS] = {
        {1, 0, 0}, {1, 0, 0}, {a->columns, a->column_step, b->row_step}};
    etd_float_products products = {
        .a = a->data,
        .b = b->data,
        .out = out->data,
        .a_row = {a->rows, a->row_step, out->row_step, 0},
        .b_rows = {1, 0, 0, 0},
        .b_columns = {b->columns, b->column_step, out->column_step, 0},
        .batch = {1, 0, 0, 0, 0},
    };
    if (addend != NULL) {
        products.added = addend->data;
        products.alpha = addend->alpha;
        products.beta = addend->beta;
        products.a_row.added_step = addend->row_step;
        products.b_columns.added_step = addend->column_step;
    }
    etd_set_sum_loops(&products, loops);
    etd_compute_products(&products);
}
