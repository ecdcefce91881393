#include "elementwise.h"
#include "kernels.h"

/* add(self, other, *, alpha, out): self + alpha other */
ET_LINE_FN(add_floats, float, a + alpha->real * b)
ET_LINE_FN(add_int32s, uint32_t, a + (uint32_t)alpha->integer * b)
ET_LINE_FN(add_int64s, uint64_t, a + alpha->integer * b)

static const char *add(const et_call *call) {
    static const et_binary operation = {add_floats, add_int32s, add_int64s};
    return et_run_binary(call, &operation, true);
}

const et_kernel et_aten_add = {"aten::add", "out", "native_call_add.out", 4, add};
