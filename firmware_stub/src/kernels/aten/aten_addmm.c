// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/matmul.h"
#include "../support/walk.h"

/* addmm(self, mat1, mat2, *, beta, alpha, out): beta self + alpha mat1 mat2, where self may be broadcast */
static const char *addmm(const etd_call *call) {
    const etd_tensor *added = etd_arg_tensor(call, 0);
    const etd_tensor *mat1 = etd_arg_tensor(call, 1);
    const etd_tensor *mat2 = etd_arg_tensor(call, 2);
    etd_tensor *out = etd_arg_out(call, 5);
    int32_t strides[ETD_MAX_DIMS];
    float beta;
    float alpha;
    if (!etd_is_type(added, ETD_FLOAT) || !etd_is_type(mat1, ETD_FLOAT) || mat1->ndim != 2 ||
        !etd_is_type(mat2, ETD_FLOAT) || mat2->ndim != 2 || !etd_is_type(out, ETD_FLOAT)) {
        return "supports only float32 matrices";
    }
    const etd_matrix a = etd_matrix_of(mat1, 0);
    const etd_matrix b = etd_matrix_of(mat2, 0);
    const int32_t sizes[] = {a.rows, b.columns};
    if (a.columns != b.rows || !etd_resize(out, sizes, 2) || !etd_broadcast_strides(added, out, strides)) {
        return "sizes do not match";
    }
    const etd_matrix y = etd_matrix_of(out, 0);
    if (!etd_arg_float(call, 3, &beta) || !etd_arg_float(call, 4, &alpha)) {
        return "invalid beta or alpha";
    }
    static const float zero = 0.0f; /* beta = 0 ignores self, even if it is NaN */
    const etd_addend nothing = {&zero, 0, 0, alpha, 1.0f};
    const etd_addend self = {etd_floats(added), strides[0], strides[1], alpha, beta};
    etd_multiply(&a, &b, beta == 0.0f ? &nothing : &self, &y);
    return NULL;
}

const etd_kernel etd_aten_addmm = {"aten::addmm", "out", "native_call_addmm.out", ETD_IN_FLOAT32 + 6, addmm};
