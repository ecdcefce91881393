// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/arguments.h"

/* One output for each possible input. */
#define ENTRIES 256

/* quantized_activation(input, lut, *, out): applies any function that the exporter has tabulated. */
static const char *quantized_activation(const etd_call *call) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    const etd_tensor *table = etd_arg_tensor(call, 1);
    etd_tensor *out = etd_arg_out(call, 2);
    if (!etd_is_type(input, ETD_CHAR) || !etd_is_type(out, ETD_CHAR)) {
        return "supports only int8";
    }
    if (!etd_has_elements(table, ETD_CHAR, ENTRIES)) {
        return "invalid table";
    }
    if (!etd_take_layout(out, input)) {
        return "input and output differ in shape or layout";
    }
    const int8_t *x = etd_int8s(input);
    const int8_t *zero = etd_int8s(table) - INT8_MIN;
    int8_t *y = etd_out_int8s(out);
    const uint32_t numel = etd_numel(out);
    for (uint32_t i = 0; i < numel; i++) {
        y[i] = zero[x[i]];
    }
    return NULL;
}

const etd_kernel etd_cortex_m_activation = {"cortex_m::quantized_activation", "out",
                                            "native_call_quantized_activation.out", 3, quantized_activation};
