#include "elementwise.h"
#include "kernels.h"

/* add(self, other, *, alpha, out): self + alpha other */
ET_LINE_FN(add_floats, float, a + alpha->real * b)
ET_LINE_FN(add_int32s, uint32_t, a + (uint32_t)alpha->integer * b)
ET_LINE_FN(add_int64s, uint64_t, a + alpha->integer * b)

static const et_operation operation = {ET_NUMBER_FNS(add), .has_alpha = true};

static const char *add(const et_call *call) {
    return et_run_binary(call, &operation);
}

static const char *add_scalar(const et_call *call) {
    return et_run_with_scalar(call, &operation);
}

const et_kernel et_aten_add = {"aten::add", "out", "native_call_add.out", 4, add};
const et_kernel et_aten_add_scalar = {"aten::add", "Scalar_out", "native_call_add.Scalar_out", 4, add_scalar};
