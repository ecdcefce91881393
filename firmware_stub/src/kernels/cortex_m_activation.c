#include "arguments.h"
#include "kernels.h"

/* One output for each possible input. */
#define ENTRIES 256

/* quantized_activation(input, lut, *, out): the exporter has tabulated the function, whichever it is. */
static const char *quantized_activation(const et_call *call) {
    const et_tensor *input = et_arg_tensor(call, 0);
    const et_tensor *table = et_arg_tensor(call, 1);
    et_tensor *out = et_arg_out(call, 2);
    if (!et_is_type(input, ET_CHAR) || !et_is_type(out, ET_CHAR)) {
        return "only int8";
    }
    if (!et_has_elements(table, ET_CHAR, ENTRIES)) {
        return "table";
    }
    if (!et_take_layout(out, input)) {
        return "input and output differ in shape or layout";
    }
    const int8_t *x = et_int8s(input);
    const int8_t *zero = et_int8s(table) - INT8_MIN;
    int8_t *y = et_out_int8s(out);
    const uint32_t numel = et_numel(out);
    for (uint32_t i = 0; i < numel; i++) {
        y[i] = zero[x[i]];
    }
    return NULL;
}

const et_kernel et_cortex_m_activation = {"cortex_m::quantized_activation", "out",
                                          "native_call_quantized_activation.out", 3, quantized_activation};
