// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "../kernels.h"
#include "../support/number.h"
#include "../support/walk.h"

/* quantized_decomposed: converts between float32 and quantized integers, with one scale and zero point per
 * tensor, or per index of dimension `axis`. */
typedef struct {
    const etd_tensor *input;
    etd_tensor *out;
    const etd_tensor *scales;      /* per channel; NULL: one for the tensor */
    const etd_tensor *zero_points; /* per channel; NULL: zero, or one for the tensor */
    double scale;
    float inverse; /* of the scale */
    int32_t zero_point;
    int32_t min;
    int32_t max;
    etd_blocks channels; /* a tensor without channels has one channel */
} etd_affine;

/* Returns true if the quantized type is supported. int32 (biases) is only dequantized. */
static bool is_quantized(const etd_tensor *tensor, bool to_float) {
    return etd_is_type(tensor, ETD_CHAR) || etd_is_type(tensor, ETD_BYTE) || etd_is_type(tensor, ETD_SHORT) ||
           (to_float && etd_is_type(tensor, ETD_INT));
}

static bool read_limits(const etd_call *call, uint32_t first, uint8_t dtype, etd_affine *affine) {
    const int32_t low = dtype == ETD_CHAR    ? INT8_MIN
                        : dtype == ETD_BYTE  ? 0
                        : dtype == ETD_SHORT ? INT16_MIN
                                             : INT32_MIN;
    const int32_t high = dtype == ETD_CHAR    ? INT8_MAX
                         : dtype == ETD_BYTE  ? UINT8_MAX
                         : dtype == ETD_SHORT ? INT16_MAX
                                              : INT32_MAX;
    int32_t same;
    return etd_arg_int(call, first, low, high, &affine->min) &&
           etd_arg_int(call, first + 1, affine->min, high, &affine->max) &&
           etd_arg_int(call, first + 2, dtype, dtype, &same);
}

/* Reads both tensors, and the range and type of the quantized side from argument `first`. */
static const char *read_range(const etd_call *call, uint32_t first, uint32_t out, bool to_float,
                              etd_affine *affine) {
    int32_t dtype;
    affine->input = etd_arg_tensor(call, 0);
    affine->out = etd_arg_out(call, out);
    const etd_tensor *real = to_float ? affine->out : affine->input;
    const etd_tensor *quantized = to_float ? affine->input : affine->out;
    if (!etd_is_type(real, ETD_FLOAT) || !is_quantized(quantized, to_float)) {
        return "supports only between float32 and int8, uint8 or int16, or from int32";
    }
    if (!etd_take_layout(affine->out, affine->input)) {
        return "input and output differ in shape or layout";
    }
    if (!read_limits(call, first, quantized->dtype, affine)) {
        return "invalid range or dtype";
    }
    if (to_float && !etd_arg_is_none(call, first + 3) &&
        !etd_arg_int(call, first + 3, ETD_FLOAT, ETD_FLOAT, &dtype)) {
        return "invalid out_dtype";
    }
    return NULL;
}

/* Reads scale and zero point: numbers, or tensors of one element. */
static bool read_parameters(const etd_call *call, etd_affine *affine) {
    const etd_tensor *scale = etd_arg_tensor(call, 1);
    const etd_tensor *zero_point = etd_arg_tensor(call, 2);
    if (scale == NULL && zero_point == NULL) {
        return etd_arg_number(call, 1, &affine->scale) &&
               etd_arg_int(call, 2, INT32_MIN, INT32_MAX, &affine->zero_point);
    }
    if ((!etd_has_elements(scale, ETD_DOUBLE, 1) && !etd_has_elements(scale, ETD_FLOAT, 1)) ||
        !etd_is_index(zero_point) || etd_numel(zero_point) != 1 ||
        !etd_are_within(zero_point, INT32_MIN, (int64_t)INT32_MAX + 1)) {
        return false;
    }
    affine->scale = etd_load_number(scale, 0).real;
    affine->zero_point = (int32_t)etd_load_number(zero_point, 0).integer;
    return true;
}

/* (input, scale, zero_point, quant_min, quant_max, dtype, *, [out_dtype?,] out) */
static const char *read_per_tensor(const etd_call *call, bool to_float, etd_affine *affine) {
    const char *refusal = read_range(call, 3, to_float ? 7 : 6, to_float, affine);
    if (refusal != NULL) {
        return refusal;
    }
    if (!read_parameters(call, affine) || !(affine->scale > 0.0)) {
        return "invalid scale or zero point";
    }
    affine->channels = (etd_blocks){1, 1, etd_numel(affine->out)};
    return NULL;
}

static bool is_per_channel(const etd_tensor *tensor, uint8_t one, uint8_t other, int32_t channels) {
    return etd_has_elements(tensor, one, channels) || etd_has_elements(tensor, other, channels);
}

/* (input, scales, zero_points?, axis, quant_min, quant_max, dtype, *, [out_dtype?,] out) */
static const char *read_per_channel(const etd_call *call, bool to_float, etd_affine *affine) {
    const char *refusal = read_range(call, 4, to_float ? 8 : 7, to_float, affine);
    uint8_t axis;
    if (refusal != NULL) {
        return refusal;
    }
    if (!etd_arg_dim(call, 3, affine->input->ndim, &axis)) {
        return "invalid axis";
    }
    const int32_t channels = affine->input->sizes[axis];
    affine->scales = etd_arg_tensor(call, 1);
    affine->zero_points = etd_arg_tensor(call, 2);
    if (!is_per_channel(affine->scales, ETD_FLOAT, ETD_DOUBLE, channels) ||
        !(etd_arg_is_none(call, 2) || is_per_channel(affine->zero_points, ETD_LONG, ETD_INT, channels))) {
        return "invalid scales or zero points";
    }
    affine->channels = etd_blocks_along(affine->input, axis);
    return NULL;
}

static void use_channel(etd_affine *affine, uint32_t channel) {
    bool is_single = false; /* the scale is a float32 tensor */
    if (affine->scales != NULL) {
        affine->scale = etd_load_number(affine->scales, channel).real;
        is_single = affine->scales->dtype == ETD_FLOAT;
    }
    if (affine->zero_points != NULL) {
        affine->zero_point = (int32_t)etd_load_number(affine->zero_points, channel).integer;
    }
    affine->inverse = is_single ? 1.0f / (float)affine->scale : (float)(1.0 / affine->scale);
}

/* Converts adjacent elements. */
typedef void (*etd_affine_fn)(const etd_affine *affine, uint32_t first, uint32_t end);

static void quantize(const etd_affine *affine, uint32_t first, uint32_t end) {
    const float *x = etd_floats(affine->input);
    for (uint32_t i = first; i < end; i++) {
        const double rounded = (double)rintf(x[i] * affine->inverse) + affine->zero_point;
        const double low = rounded < affine->min || isnan(rounded) ? affine->min : rounded;
        const etd_number number = {.is_real = true, .real = low > affine->max ? affine->max : low};
        etd_store_number(affine->out, i, number);
    }
}

static void dequantize(const etd_affine *affine, uint32_t first, uint32_t end) {
    const float scale = (float)affine->scale;
    float *y = etd_out_floats(affine->out);
    if (affine->input->dtype == ETD_CHAR && affine->zero_point >= INT8_MIN &&
        affine->zero_point <= INT8_MAX) {
        const int8_t *x = etd_int8s(affine->input);
        for (uint32_t i = first; i < end; i++) {
            y[i] = (float)(x[i] - affine->zero_point) * scale;
        }
        return;
    }
    for (uint32_t i = first; i < end; i++) {
        y[i] = (float)(etd_load_number(affine->input, i).integer - affine->zero_point) * scale;
    }
}

static const char *run(etd_affine *affine, const char *refusal, etd_affine_fn convert) {
    const etd_blocks *channels = &affine->channels;
    for (uint32_t channel = 0; refusal == NULL && channel < channels->length; channel++) {
        use_channel(affine, channel);
        for (uint32_t block = 0; block < channels->outer; block++) {
            const uint32_t start = (block * channels->length + channel) * channels->stride;
            convert(affine, start, start + channels->stride);
        }
    }
    return refusal;
}

static const char *quantize_per_tensor(const etd_call *call) {
    etd_affine affine = {0};
    return run(&affine, read_per_tensor(call, false, &affine), quantize);
}

static const char *dequantize_per_tensor(const etd_call *call) {
    etd_affine affine = {0};
    return run(&affine, read_per_tensor(call, true, &affine), dequantize);
}

static const char *quantize_per_channel(const etd_call *call) {
    etd_affine affine = {0};
    return run(&affine, read_per_channel(call, false, &affine), quantize);
}

static const char *dequantize_per_channel(const etd_call *call) {
    etd_affine affine = {0};
    return run(&affine, read_per_channel(call, true, &affine), dequantize);
}

/* With scale and zero point as tensors, such as choose_qparams computes them. */
const etd_kernel etd_quantize_by_tensors = {"quantized_decomposed::quantize_per_tensor", "Tensor_out",
                                            "native_call_quantize_per_tensor.Tensor_out", 7,
                                            quantize_per_tensor};
const etd_kernel etd_dequantize_by_tensors = {"quantized_decomposed::dequantize_per_tensor", "Tensor_out",
                                              "native_call_dequantize_per_tensor.Tensor_out", 8,
                                              dequantize_per_tensor};
const etd_kernel etd_quantize_per_tensor = {"quantized_decomposed::quantize_per_tensor", "out",
                                            "native_call_quantize_per_tensor.out", 7, quantize_per_tensor};
const etd_kernel etd_dequantize_per_tensor = {"quantized_decomposed::dequantize_per_tensor", "out",
                                              "native_call_dequantize_per_tensor.out", 8,
                                              dequantize_per_tensor};
const etd_kernel etd_quantize_per_channel = {"quantized_decomposed::quantize_per_channel", "out",
                                             "native_call_quantize_per_channel.out", 8, quantize_per_channel};
const etd_kernel etd_dequantize_per_channel = {"quantized_decomposed::dequantize_per_channel", "out",
                                               "native_call_dequantize_per_channel.out", 9,
                                               dequantize_per_channel};
