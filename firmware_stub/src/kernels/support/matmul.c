// SPDX-License-Identifier: Apache-2.0
#include "matmul.h"

#include "float_line.h"
#include "float_products.h"

etd_matrix etd_matrix_of(const etd_tensor *tensor, int32_t batch) {
    const uint32_t row = tensor->ndim - 2u;
    const int32_t start = row == 0 ? 0 : batch * tensor->strides[0];
    return (etd_matrix){etd_out_floats(tensor) + start, tensor->sizes[row], tensor->sizes[row + 1],
                        tensor->strides[row], tensor->strides[row + 1]};
}

/* Multiplies a single row, the ordinary case of a linear layer, without the work of dividing many outputs
 * into groups. */
static void multiply_line(const etd_matrix *a, const etd_matrix *b, const etd_addend *addend,
                          const etd_matrix *out) {
    static const float nothing = -0.0f; /* changes no number that it is added to */
    const etd_float_line line = {
        .x = a->data,
        .w = b->data,
        .out = out->data,
        .added = addend != NULL ? addend->data : &nothing,
        .added_step = addend != NULL ? addend->column_step : 0,
        .alpha = addend != NULL ? addend->alpha : 1.0f,
        .beta = addend != NULL ? addend->beta : 1.0f,
        .is_scaled = addend != NULL && (addend->alpha != 1.0f || addend->beta != 1.0f),
        .depth = (uint32_t)a->columns,
        .count = b->columns,
        .row_step = b->row_step,
        .line_step = b->column_step,
    };
    etd_multiply_line(&line);
}

/* Stores products of no columns and no rows: sums of nothing. */
static void store_addend(const etd_addend *addend, const etd_matrix *out) {
    for (int32_t row = 0; row < out->rows; row++) {
        for (int32_t column = 0; column < out->columns; column++) {
            float sum = 0.0f;
            if (addend != NULL) {
                sum = addend->data[row * addend->row_step + column * addend->column_step] * addend->beta;
            }
            out->data[row * out->row_step + column * out->column_step] = sum;
        }
    }
}

void etd_multiply(const etd_matrix *a, const etd_matrix *b, const etd_addend *addend, const etd_matrix *out) {
    if (a->rows == 0 || b->columns == 0) {
        return;
    }
    if (a->columns == 0) {
        store_addend(addend, out);
        return;
    }
    if (a->rows == 1 && a->column_step == 1 && out->column_step == 1 &&
        (b->column_step == 1 || b->row_step == 1)) {
        multiply_line(a, b, addend, out);
        return;
    }
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
