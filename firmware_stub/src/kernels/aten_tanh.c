#include <math.h>

#include "elementwise.h"
#include "kernels.h"

static float hyperbolic_tangent(float x, float unused) {
    (void)unused;
    return tanhf(x);
}

/* tanh(input, *, out) */
static const char *tangent(const et_call *call) {
    return et_run_map(call, 1, hyperbolic_tangent, 0.0f);
}

const et_kernel et_aten_tanh = {"aten::tanh", "out", "native_call_tanh.out", 2, tangent};
