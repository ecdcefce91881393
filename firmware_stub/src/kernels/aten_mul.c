#include "elementwise.h"
#include "kernels.h"

/* mul(self, other, *, out) */
ET_LINE_FN(mul_floats, float, a *b)
ET_LINE_FN(mul_int32s, uint32_t, a *b)
ET_LINE_FN(mul_int64s, uint64_t, a *b)

static const et_operation operation = {ET_NUMBER_FNS(mul)};

static const char *mul(const et_call *call) {
    return et_run_binary(call, &operation);
}

static const char *mul_scalar(const et_call *call) {
    return et_run_with_scalar(call, &operation);
}

const et_kernel et_aten_mul = {"aten::mul", "out", "native_call_mul.out", 3, mul};
const et_kernel et_aten_mul_scalar = {"aten::mul", "Scalar_out", "native_call_mul.Scalar_out", 3, mul_scalar};
