#include "kernels.h"
#include "matmul.h"
#include "walk.h"

/* addmm(self, mat1, mat2, *, beta, alpha, out): beta self + alpha mat1 mat2, where self may be broadcast */
static const char *addmm(const et_call *call) {
    const et_tensor *added = et_arg_tensor(call, 0);
    const et_tensor *mat1 = et_arg_tensor(call, 1);
    const et_tensor *mat2 = et_arg_tensor(call, 2);
    et_tensor *out = et_arg_out(call, 5);
    int32_t strides[ET_MAX_DIMS];
    double beta;
    double alpha;
    if (!et_is_type(added, ET_FLOAT) || !et_is(mat1, ET_FLOAT, 2) || !et_is(mat2, ET_FLOAT, 2) ||
        !et_is_type(out, ET_FLOAT)) {
        return "only float32 matrices";
    }
    const et_matrix a = et_matrix_of(mat1, 0);
    const et_matrix b = et_matrix_of(mat2, 0);
    const int32_t sizes[] = {a.rows, b.columns};
    if (a.columns != b.rows || !et_resize(out, sizes, 2) || !et_broadcast_strides(added, out, strides)) {
        return "sizes do not match";
    }
    const et_matrix y = et_matrix_of(out, 0);
    if (!et_arg_number(call, 3, &beta) || !et_arg_number(call, 4, &alpha)) {
        return "beta or alpha";
    }
    for (int32_t i = 0; i < y.rows; i++) {
        for (int32_t j = 0; j < y.columns; j++) {
            const float addend = et_floats(added)[i * strides[0] + j * strides[1]];
            /* beta = 0 means that self does not count, NaN or not */
            y.data[i * y.row_step + j * y.column_step] =
                (float)alpha * et_product_at(&a, i, &b, j) + (beta == 0.0 ? 0.0f : (float)beta * addend);
        }
    }
    return NULL;
}

const et_kernel et_aten_addmm = {"aten::addmm", "out", "native_call_addmm.out", 6, addmm};
