#include "elementwise.h"
#include "kernels.h"

/* sub(self, other, *, alpha, out): self - alpha other */
ET_LINE_FN(sub_floats, float, a - alpha->real * b)
ET_LINE_FN(sub_int32s, uint32_t, a - (uint32_t)alpha->integer * b)
ET_LINE_FN(sub_int64s, uint64_t, a - alpha->integer * b)

static const char *sub(const et_call *call) {
    static const et_binary operation = {sub_floats, sub_int32s, sub_int64s};
    return et_run_binary(call, &operation, true);
}

const et_kernel et_aten_sub = {"aten::sub", "out", "native_call_sub.out", 4, sub};
