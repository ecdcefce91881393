// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "arguments.h"
#include "kernels.h"
#include "walk.h"

/* Checks a per-channel parameter: absent, or one element per channel. */
static bool is_parameter_valid(const etd_call *call, uint32_t i, int32_t channels) {
    return etd_arg_is_none(call, i) || etd_has_elements(etd_arg_tensor(call, i), ETD_FLOAT, channels);
}

static float parameter(const etd_call *call, uint32_t i, uint32_t channel, float absent) {
    const etd_tensor *tensor = etd_arg_tensor(call, i);
    return tensor != NULL ? etd_floats(tensor)[channel] : absent;
}

/* _native_batch_norm_legit_no_training(input, weight?, bias?, running_mean, running_var, momentum, eps, *,
 * out0, out1, out2); the saved statistics out1 and out2 are empty in inference. */
static const char *batch_norm(const etd_call *call) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 7);
    double epsilon;
    if (!etd_is_type(input, ETD_FLOAT) || !etd_is_type(out, ETD_FLOAT) || input->ndim < 2) {
        return "supports only float32 with channels";
    }
    if (!etd_take_layout(out, input)) {
        return "input and output differ in shape or layout";
    }
    int32_t channels = input->sizes[1];
    if (!is_parameter_valid(call, 1, channels) || !is_parameter_valid(call, 2, channels) ||
        !etd_has_elements(etd_arg_tensor(call, 3), ETD_FLOAT, channels) ||
        !etd_has_elements(etd_arg_tensor(call, 4), ETD_FLOAT, channels) ||
        !etd_arg_number(call, 6, &epsilon)) {
        return "invalid parameters";
    }
    etd_blocks blocks = etd_blocks_along(input, 1);
    for (uint32_t channel = 0; channel < blocks.length; channel++) {
        float scale =
            parameter(call, 1, channel, 1.0f) / sqrtf(parameter(call, 4, channel, 1.0f) + (float)epsilon);
        float shift = parameter(call, 2, channel, 0.0f) - parameter(call, 3, channel, 0.0f) * scale;
        for (uint32_t block = 0; block < blocks.outer; block++) {
            uint32_t start = (block * blocks.length + channel) * blocks.stride;
            const float *x = etd_floats(input) + start;
            float *y = etd_out_floats(out) + start;
            for (uint32_t i = 0; i < blocks.stride; i++) {
                y[i] = x[i] * scale + shift;
            }
        }
    }
    return NULL;
}

const etd_kernel etd_aten_batch_norm = {"aten::_native_batch_norm_legit_no_training", "out",
                                        "native_call__native_batch_norm_legit_no_training.out", 10,
                                        batch_norm};
