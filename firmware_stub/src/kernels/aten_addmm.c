#include "arguments.h"
#include "kernels.h"

/* The added matrix, which may be broadcast from fewer or single rows and columns: strides 0 there. */
typedef struct {
    const float *data;
    int32_t row;
    int32_t column;
} et_addend;

static bool read_addend(const et_tensor *tensor, const et_tensor *out, et_addend *addend) {
    if (!et_is_type(tensor, ET_FLOAT) || tensor->ndim > 2) {
        return false;
    }
    int32_t strides[2] = {0, 0};
    for (uint32_t d = 0; d < tensor->ndim; d++) {
        uint32_t to = d + 2u - tensor->ndim;
        if (tensor->sizes[d] != 1 && tensor->sizes[d] != out->sizes[to]) {
            return false;
        }
        strides[to] = tensor->sizes[d] == 1 ? 0 : tensor->strides[d];
    }
    *addend = (et_addend){et_floats(tensor), strides[0], strides[1]};
    return true;
}

static float dot(const float *a, int32_t a_step, const float *b, int32_t b_step, int32_t count) {
    float sum = 0.0f;
    for (int32_t i = 0; i < count; i++) {
        sum += a[i * a_step] * b[i * b_step];
    }
    return sum;
}

/* addmm(self, mat1, mat2, *, beta, alpha, out): beta self + alpha mat1 mat2 */
static const char *addmm(const et_call *call) {
    const et_tensor *a = et_arg_tensor(call, 1);
    const et_tensor *b = et_arg_tensor(call, 2);
    et_tensor *out = et_arg_out(call, 5);
    et_addend addend;
    double beta;
    double alpha;
    if (!et_is(a, ET_FLOAT, 2) || !et_is(b, ET_FLOAT, 2) || !et_is(out, ET_FLOAT, 2)) {
        return "only float32 matrices";
    }
    if (a->sizes[1] != b->sizes[0] || out->sizes[0] != a->sizes[0] || out->sizes[1] != b->sizes[1] ||
        !read_addend(et_arg_tensor(call, 0), out, &addend)) {
        return "sizes do not match";
    }
    if (!et_arg_number(call, 3, &beta) || !et_arg_number(call, 4, &alpha)) {
        return "beta or alpha";
    }
    float *y = et_out_floats(out);
    for (int32_t i = 0; i < out->sizes[0]; i++) {
        const float *row = et_floats(a) + i * a->strides[0];
        for (int32_t j = 0; j < out->sizes[1]; j++) {
            const float *column = et_floats(b) + j * b->strides[1];
            float product = dot(row, a->strides[1], column, b->strides[0], a->sizes[1]);
            float added = addend.data[i * addend.row + j * addend.column];
            /* beta = 0 means that self does not count, NaN or not */
            y[i * out->strides[0] + j * out->strides[1]] =
                (float)alpha * product + (beta == 0.0 ? 0.0f : (float)beta * added);
        }
    }
    return NULL;
}

const et_kernel et_aten_addmm = {"aten::addmm", "out", "native_call_addmm.out", 6, addmm};
