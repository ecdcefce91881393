#include "elementwise.h"
#include "kernels.h"

/* mul(self, other, *, out) */
ET_LINE_FN(mul_floats, float, a *b)
ET_LINE_FN(mul_int32s, uint32_t, a *b)
ET_LINE_FN(mul_int64s, uint64_t, a *b)

static const char *mul(const et_call *call) {
    static const et_binary operation = {mul_floats, mul_int32s, mul_int64s};
    return et_run_binary(call, &operation, false);
}

const et_kernel et_aten_mul = {"aten::mul", "out", "native_call_mul.out", 3, mul};
