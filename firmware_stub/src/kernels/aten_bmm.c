#include "kernels.h"
#include "matmul.h"

/* Matrices, or batches of matrices. */
static const char *multiply(const et_call *call, uint8_t ndim) {
    const et_tensor *a = et_arg_tensor(call, 0);
    const et_tensor *b = et_arg_tensor(call, 1);
    et_tensor *out = et_arg_out(call, 2);
    if (!et_is(a, ET_FLOAT, ndim) || !et_is(b, ET_FLOAT, ndim) || !et_is_type(out, ET_FLOAT)) {
        return ndim == 2 ? "only float32 matrices" : "only batches of float32 matrices";
    }
    const int32_t batches = ndim == 2 ? 1 : a->sizes[0];
    const int32_t sizes[] = {batches, a->sizes[ndim - 2], b->sizes[ndim - 1]};
    if (a->sizes[ndim - 1] != b->sizes[ndim - 2] || (ndim == 3 && b->sizes[0] != batches) ||
        !et_resize(out, sizes + (3 - ndim), ndim)) {
        return "sizes do not match";
    }
    for (int32_t batch = 0; batch < batches; batch++) {
        const et_matrix first = et_matrix_of(a, batch);
        const et_matrix second = et_matrix_of(b, batch);
        const et_matrix product = et_matrix_of(out, batch);
        et_multiply(&first, &second, &product);
    }
    return NULL;
}

/* mm(self, mat2, *, out) */
static const char *mm(const et_call *call) {
    return multiply(call, 2);
}

/* bmm(self, mat2, *, out) */
static const char *bmm(const et_call *call) {
    return multiply(call, 3);
}

const et_kernel et_aten_mm = {"aten::mm", "out", "native_call_mm.out", 3, mm};
const et_kernel et_aten_bmm = {"aten::bmm", "out", "native_call_bmm.out", 3, bmm};
