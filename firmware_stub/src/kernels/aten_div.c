#include "elementwise.h"
#include "kernels.h"

/* div(self, other, *, out), the true division */
ET_LINE_FN(div_floats, float, a / b)

static const char *divide(const et_call *call) {
    static const et_binary operation = {.floats = div_floats};
    return et_run_binary(call, &operation, false);
}

const et_kernel et_aten_div = {"aten::div", "out", "native_call_div.out", 3, divide};
