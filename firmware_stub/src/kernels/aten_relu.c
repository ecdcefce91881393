#include "arguments.h"
#include "kernels.h"

/* relu(input, *, out) */
static const char *relu(const et_call *call) {
    const et_tensor *input = et_arg_tensor(call, 0);
    et_tensor *out = et_arg_out(call, 1);
    if (!et_is_type(input, ET_FLOAT) || !et_is_type(out, ET_FLOAT)) {
        return "only float32";
    }
    if (!et_same_layout(input, out)) {
        return "input and output differ in shape or layout";
    }
    const float *x = et_floats(input);
    float *y = et_out_floats(out);
    uint32_t numel = et_numel(out);
    for (uint32_t i = 0; i < numel; i++) {
        y[i] = x[i] < 0.0f ? 0.0f : x[i]; /* NaN stays NaN */
    }
    return NULL;
}

const et_kernel et_aten_relu = {"aten::relu", "out", "native_call_relu.out", 2, relu};
