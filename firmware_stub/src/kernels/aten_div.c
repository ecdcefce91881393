#include "elementwise.h"
#include "kernels.h"

/* div(self, other, *, out), the true division */
ET_LINE_FN(div_floats, float, a / b)

static const et_operation operation = {.floats = div_floats};

static const char *divide(const et_call *call) {
    return et_run_binary(call, &operation);
}

static const char *divide_scalar(const et_call *call) {
    return et_run_with_scalar(call, &operation);
}

const et_kernel et_aten_div = {"aten::div", "out", "native_call_div.out", 3, divide};
const et_kernel et_aten_div_scalar = {"aten::div", "Scalar_out", "native_call_div.Scalar_out", 3,
                                      divide_scalar};
