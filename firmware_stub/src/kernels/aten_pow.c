#include <math.h>

#include "elementwise.h"
#include "kernels.h"

/* pow(self, exponent, *, out) */
ET_LINE_FN(pow_floats, float, powf(a, b))

static const et_operation operation = {.floats = pow_floats};

static const char *power(const et_call *call) {
    return et_run_binary(call, &operation);
}

static const char *power_scalar(const et_call *call) {
    return et_run_with_scalar(call, &operation);
}

const et_kernel et_aten_pow = {"aten::pow", "Tensor_Tensor_out", "native_call_pow.Tensor_Tensor_out", 3,
                               power};
const et_kernel et_aten_pow_scalar = {"aten::pow", "Tensor_Scalar_out", "native_call_pow.Tensor_Scalar_out",
                                      3, power_scalar};
