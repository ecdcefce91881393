// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/walk.h"

/* Checks a per-channel parameter: absent, or one element per channel. */
static bool is_parameter_valid(const etd_call *call, uint32_t i, int32_t channels) {
    return etd_arg_is_none(call, i) || etd_has_elements(etd_arg_tensor(call, i), ETD_FLOAT, channels);
}

static float parameter(const etd_call *call, uint32_t i, uint32_t channel, float absent) {
    const etd_tensor *tensor = etd_arg_tensor(call, i);
    return tensor != NULL ? etd_floats(tensor)[channel] : absent;
}

/* (input, weight?, bias?, running_mean, running_var, .., eps, *, out, ..) with eps at `epsilon_at`. The saved
 * statistics after out are empty in inference. */
static const char *normalize(const etd_call *call, uint32_t epsilon_at) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, epsilon_at + 1);
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
        !etd_arg_number(call, epsilon_at, &epsilon)) {
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

/* _native_batch_norm_legit_no_training(input, weight?, bias?, running_mean, running_var, momentum, eps, *,
 * out0, out1, out2) */
static const char *batch_norm(const etd_call *call) {
    return normalize(call, 6);
}

/* _native_batch_norm_legit(input, weight?, bias?, running_mean, running_var, training, momentum, eps, *, out,
 * save_mean, save_invstd) */
static const char *batch_norm_legit(const etd_call *call) {
    bool training;
    if (!etd_arg_bool(call, 5, &training) || training) {
        return "invalid training";
    }
    return normalize(call, 7);
}

ETD_ATEN_KERNEL(batch_norm_legit, "_native_batch_norm_legit", "out", ETD_IN_FLOAT32 + 11, batch_norm_legit)

const etd_kernel etd_aten_batch_norm = {"aten::_native_batch_norm_legit_no_training", "out",
                                        "native_call__native_batch_norm_legit_no_training.out",
                                        ETD_IN_FLOAT32 + 10, batch_norm};
