// SPDX-License-Identifier: Apache-2.0
#include "requantize.h"

#include <math.h>

int32_t etd_requantize(int32_t value, int32_t multiplier, int32_t shift) {
    /* The masks only keep the shifts defined in C; kernels reject shifts out of range. */
    const uint32_t left = shift > 0 ? (uint32_t)shift & 31u : 0u;
    const uint32_t right = shift < 0 ? (0u - (uint32_t)shift) & 31u : 0u;
    int64_t product = (int64_t)value * multiplier;
    if (left != 0) {
        product = (int64_t)((uint64_t)product << left);
    }
    const int32_t high = (int32_t)(uint32_t)(((uint64_t)product + (UINT64_C(1) << 30)) >> 31);
    const uint32_t mask = (1u << right) - 1u;
    const uint32_t half = (mask >> 1) + (high < 0 ? 1u : 0u);
    return (high >> right) + (((uint32_t)high & mask) > half ? 1 : 0);
}

bool etd_read_int32s(const etd_call *call, uint32_t i, int32_t count, const int32_t **numbers) {
    const etd_tensor *tensor = etd_arg_tensor(call, i);
    if (etd_arg_is_none(call, i)) {
        *numbers = NULL;
        return true;
    }
    if (!etd_has_elements(tensor, ETD_INT, count)) {
        return false;
    }
    *numbers = etd_int32s(tensor);
    return true;
}

static bool are_shifts_valid(const int32_t *shifts, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        if (shifts[i] < ETD_SHIFT_MIN || shifts[i] > ETD_SHIFT_MAX) {
            return false;
        }
    }
    return true;
}

bool etd_read_output_stage(const etd_call *call, uint32_t first, int32_t channels, etd_output_stage *stage) {
    return etd_read_int32s(call, 2, channels, &stage->bias) &&
           etd_arg_int(call, first, INT8_MIN, INT8_MAX, &stage->offset) &&
           etd_read_int32s(call, first + 1, channels, &stage->multipliers) && stage->multipliers != NULL &&
           etd_read_int32s(call, first + 2, channels, &stage->shifts) && stage->shifts != NULL &&
           are_shifts_valid(stage->shifts, channels) &&
           etd_arg_int(call, first + 3, INT8_MIN, INT8_MAX, &stage->min) &&
           etd_arg_int(call, first + 4, INT8_MIN, INT8_MAX, &stage->max);
}

bool etd_are_fast_biases(const int32_t *bias, int32_t count) {
    for (int32_t i = 0; bias != NULL && i < count; i++) {
        if (bias[i] < -ETD_FAST_BIAS_MAX || bias[i] > ETD_FAST_BIAS_MAX) {
            return false;
        }
    }
    return true;
}

bool etd_is_fast_stage(const etd_output_stage *stage, int32_t channels, uint32_t length) {
    for (int32_t i = 0; i < channels; i++) {
        if (!etd_is_fast_shift(stage->shifts[i])) {
            return false;
        }
    }
    return length <= ETD_FAST_LENGTH_MAX && etd_are_fast_biases(stage->bias, channels);
}

int8_t etd_finish(const etd_output_stage *stage, int32_t channel, uint32_t sum) {
    if (stage->bias != NULL) {
        sum += (uint32_t)stage->bias[channel];
    }
    int32_t scaled = etd_requantize((int32_t)sum, stage->multipliers[channel], stage->shifts[channel]);
    return etd_narrow(scaled, stage->offset, stage->min, stage->max);
}

int32_t etd_round_and_clamp(float scaled, int32_t zero_point, int32_t min, int32_t max) {
    float number = rintf(scaled) + (float)zero_point;
    if (!(number >= (float)min)) {
        return min;
    }
    return number > (float)max ? max : (int32_t)number;
}

int8_t etd_quantize(float scaled, int32_t zero_point, int32_t min, int32_t max) {
    return (int8_t)etd_round_and_clamp(scaled, zero_point, min, max);
}
