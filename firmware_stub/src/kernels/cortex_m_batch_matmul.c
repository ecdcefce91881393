#include "arguments.h"
#include "dot.h"
#include "kernels.h"
#include "requantize.h"

typedef struct {
    const et_tensor *a; /* batch, rows, inner */
    const et_tensor *b; /* batch, columns, inner */
    et_tensor *out;     /* batch, rows, columns */
    int32_t a_offset;
    int32_t b_offset;
    int32_t zero_point;
    int32_t multiplier;
    int32_t shift;
} et_batch_matmul;

/* quantized_batch_matmul(lhs, lhs_zero_point, rhs_transposed, rhs_zero_point, output_zero_point,
 * output_multiplier, output_shift, scratch, *, out); both inputs' zero points come negated. */
static const char *read_arguments(const et_call *call, et_batch_matmul *matmul) {
    const et_tensor *a = matmul->a = et_arg_tensor(call, 0);
    const et_tensor *b = matmul->b = et_arg_tensor(call, 2);
    et_tensor *out = matmul->out = et_arg_out(call, 8);
    if (!et_is(a, ET_CHAR, 3) || !et_is(b, ET_CHAR, 3) || !et_is_type(out, ET_CHAR)) {
        return "only int8 in batches of matrices";
    }
    const int32_t sizes[] = {a->sizes[0], a->sizes[1], b->sizes[1]};
    if (b->sizes[0] != a->sizes[0] || b->sizes[2] != a->sizes[2] || !et_resize(out, sizes, 3)) {
        return "sizes do not match";
    }
    if (!et_arg_int(call, 1, -INT8_MAX, -INT8_MIN, &matmul->a_offset) ||
        !et_arg_int(call, 3, -INT8_MAX, -INT8_MIN, &matmul->b_offset) ||
        !et_arg_int(call, 4, INT8_MIN, INT8_MAX, &matmul->zero_point) ||
        !et_arg_int(call, 5, 0, INT32_MAX, &matmul->multiplier) ||
        !et_arg_int(call, 6, ET_SHIFT_MIN, ET_SHIFT_MAX, &matmul->shift)) {
        return "quantization";
    }
    return NULL;
}

static void multiply(const et_batch_matmul *matmul, int32_t batch, int32_t row) {
    const int32_t *a = matmul->a->strides;
    const int32_t *b = matmul->b->strides;
    const int32_t *out = matmul->out->strides;
    const int8_t *x = et_int8s(matmul->a) + batch * a[0] + row * a[1];
    const int8_t *w = et_int8s(matmul->b) + batch * b[0];
    int8_t *y = et_out_int8s(matmul->out) + batch * out[0] + row * out[1];
    const et_dot_steps steps = {matmul->a->sizes[2], a[2], b[2], matmul->a_offset, matmul->b_offset};
    for (int32_t column = 0; column < matmul->b->sizes[1]; column++) {
        const int32_t sum = (int32_t)et_dot_offsets(x, w, &steps);
        *y = et_narrow(et_requantize(sum, matmul->multiplier, matmul->shift), matmul->zero_point, INT8_MIN,
                       INT8_MAX);
        w += b[1];
        y += out[2];
    }
}

static const char *quantized_batch_matmul(const et_call *call) {
    et_batch_matmul matmul;
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

const et_kernel et_cortex_m_batch_matmul = {"cortex_m::quantized_batch_matmul", "out",
                                            "native_call_quantized_batch_matmul.out", 9,
                                            quantized_batch_matmul};
