// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/dot.h"
#include "../support/requantize.h"

typedef struct {
    const etd_tensor *a; /* batch, rows, inner */
    const etd_tensor *b; /* batch, columns, inner */
    etd_tensor *out;     /* batch, rows, columns */
    int32_t a_offset;
    int32_t b_offset;
    int32_t zero_point;
    int32_t multiplier;
    int32_t shift;
} etd_batch_matmul;

/* quantized_batch_matmul(lhs, lhs_zero_point, rhs_transposed, rhs_zero_point, output_zero_point,
 * output_multiplier, output_shift, scratch, *, out). The zero points of both inputs are passed negated. */
static const char *read_arguments(const etd_call *call, etd_batch_matmul *matmul) {
    const etd_tensor *a = matmul->a = etd_arg_tensor(call, 0);
    const etd_tensor *b = matmul->b = etd_arg_tensor(call, 2);
    etd_tensor *out = matmul->out = etd_arg_out(call, 8);
    if (!etd_is(a, ETD_CHAR, 3) || !etd_is(b, ETD_CHAR, 3) || !etd_is_type(out, ETD_CHAR)) {
        return "supports only int8 in batches of matrices";
    }
    const int32_t sizes[] = {a->sizes[0], a->sizes[1], b->sizes[1]};
    if (b->sizes[0] != a->sizes[0] || b->sizes[2] != a->sizes[2] || !etd_resize(out, sizes, 3)) {
        return "sizes do not match";
    }
    if (!etd_arg_int(call, 1, -INT8_MAX, -INT8_MIN, &matmul->a_offset) ||
        !etd_arg_int(call, 3, -INT8_MAX, -INT8_MIN, &matmul->b_offset) ||
        !etd_arg_int(call, 4, INT8_MIN, INT8_MAX, &matmul->zero_point) ||
        !etd_arg_int(call, 5, 0, INT32_MAX, &matmul->multiplier) ||
        !etd_arg_int(call, 6, ETD_SHIFT_MIN, ETD_SHIFT_MAX, &matmul->shift)) {
        return "invalid quantization parameters";
    }
    return NULL;
}

static void multiply(const etd_batch_matmul *matmul, int32_t batch, int32_t row) {
    const int32_t *a = matmul->a->strides;
    const int32_t *b = matmul->b->strides;
    const int32_t *out = matmul->out->strides;
    const int8_t *x = etd_int8s(matmul->a) + batch * a[0] + row * a[1];
    const int8_t *w = etd_int8s(matmul->b) + batch * b[0];
    int8_t *y = etd_out_int8s(matmul->out) + batch * out[0] + row * out[1];
    const etd_dot_steps steps = {matmul->a->sizes[2], a[2], b[2], matmul->a_offset, matmul->b_offset};
    for (int32_t column = 0; column < matmul->b->sizes[1]; column++) {
        const int32_t sum = (int32_t)etd_dot_offsets(x, w, &steps);
        *y = etd_narrow(etd_requantize(sum, matmul->multiplier, matmul->shift), matmul->zero_point, INT8_MIN,
                        INT8_MAX);
        w += b[1];
        y += out[2];
    }
}

static const char *quantized_batch_matmul(const etd_call *call) {
    etd_batch_matmul matmul;
    const char *refusal = read_arguments(call, &matmul);
    if (refusal != NULL) {
        return refusal;
    }
    for (int32_t batch = 0; batch < matmul.a->sizes[0]; batch++) {
        for (int32_t row = 0; row < matmul.a->sizes[1]; row++) {
            multiply(&matmul, batch, row);
        }
    }
    return NULL;
}

const etd_kernel etd_cortex_m_batch_matmul = {"cortex_m::quantized_batch_matmul", "out",
                                              "native_call_quantized_batch_matmul.out", 9,
                                              quantized_batch_matmul};
