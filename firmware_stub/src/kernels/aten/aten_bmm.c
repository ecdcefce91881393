// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/matmul.h"

/* Multiplies matrices or batches of matrices. */
static const char *multiply(const etd_call *call, uint8_t ndim) {
    const etd_tensor *a = etd_arg_tensor(call, 0);
    const etd_tensor *b = etd_arg_tensor(call, 1);
    etd_tensor *out = etd_arg_out(call, 2);
    if (!etd_is_type(a, ETD_FLOAT) || a->ndim != ndim || !etd_is_type(b, ETD_FLOAT) || b->ndim != ndim ||
        !etd_is_type(out, ETD_FLOAT)) {
        return ndim == 2 ? "supports only float32 matrices" : "supports only batches of float32 matrices";
    }
    const int32_t batches = ndim == 2 ? 1 : a->sizes[0];
    const int32_t sizes[] = {batches, a->sizes[ndim - 2], b->sizes[ndim - 1]};
    if (a->sizes[ndim - 1] != b->sizes[ndim - 2] || (ndim == 3 && b->sizes[0] != batches) ||
        !etd_resize(out, sizes + (3 - ndim), ndim)) {
        return "sizes do not match";
    }
    for (int32_t batch = 0; batch < batches; batch++) {
        const etd_matrix first = etd_matrix_of(a, batch);
        const etd_matrix second = etd_matrix_of(b, batch);
        const etd_matrix product = etd_matrix_of(out, batch);
        etd_multiply(&first, &second, NULL, &product);
    }
    return NULL;
}

/* mm(self, mat2, *, out) */
static const char *mm(const etd_call *call) {
    return multiply(call, 2);
}

/* bmm(self, mat2, *, out) */
static const char *bmm(const etd_call *call) {
    return multiply(call, 3);
}

const etd_kernel etd_aten_mm = {"aten::mm", "out", "native_call_mm.out", ETD_IN_FLOAT32 + 3, mm};
const etd_kernel etd_aten_bmm = {"aten::bmm", "out", "native_call_bmm.out", ETD_IN_FLOAT32 + 3, bmm};
