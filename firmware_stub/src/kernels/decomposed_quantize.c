#include <math.h>

#include "kernels.h"
#include "number.h"
#include "walk.h"

/* quantized_decomposed: between float32 and the integers that stand for it, with one scale and zero point for
 * a tensor, or one of each for every index of its dimension `axis`. */
typedef struct {
    const et_tensor *input;
    et_tensor *out;
    const et_tensor *scales;      /* per channel; NULL: one for all */
    const et_tensor *zero_points; /* per channel; NULL: zero, or one for all */
    double scale;
    int32_t zero_point;
    int32_t min;
    int32_t max;
    et_blocks channels; /* a tensor without channels is one of one channel */
} et_affine;

/* Whether the quantized side's type is supported. Biases are int32, but only ever dequantized. */
static bool is_quantized(const et_tensor *tensor, bool to_float) {
    return et_is_type(tensor, ET_CHAR) || et_is_type(tensor, ET_BYTE) || et_is_type(tensor, ET_SHORT) ||
           (to_float && et_is_type(tensor, ET_INT));
}

static bool read_limits(const et_call *call, uint32_t first, uint8_t dtype, et_affine *affine) {
    const int32_t low = dtype == ET_CHAR    ? INT8_MIN
                        : dtype == ET_BYTE  ? 0
                        : dtype == ET_SHORT ? INT16_MIN
                                            : INT32_MIN;
    const int32_t high = dtype == ET_CHAR    ? INT8_MAX
                         : dtype == ET_BYTE  ? UINT8_MAX
                         : dtype == ET_SHORT ? INT16_MAX
                                             : INT32_MAX;
    int32_t same;
    return et_arg_int(call, first, low, high, &affine->min) &&
           et_arg_int(call, first + 1, affine->min, high, &affine->max) &&
           et_arg_int(call, first + 2, dtype, dtype, &same);
}

/* Reads both tensors and what stands between them: the range and the
 * type of the quantized side, from argument `first`. */
static const char *read_range(const et_call *call, uint32_t first, uint32_t out, bool to_float,
                              et_affine *affine) {
    int32_t dtype;
    affine->input = et_arg_tensor(call, 0);
    affine->out = et_arg_out(call, out);
    const et_tensor *real = to_float ? affine->out : affine->input;
    const et_tensor *quantized = to_float ? affine->input : affine->out;
    if (!et_is_type(real, ET_FLOAT) || !is_quantized(quantized, to_float)) {
        return "only between float32 and int8, uint8 or int16, or from int32";
    }
    if (!et_take_layout(affine->out, affine->input)) {
        return "input and output differ in shape or layout";
    }
    if (!read_limits(call, first, quantized->dtype, affine)) {
        return "range or dtype";
    }
    if (to_float && !et_arg_is_none(call, first + 3) &&
        !et_arg_int(call, first + 3, ET_FLOAT, ET_FLOAT, &dtype)) {
        return "out_dtype";
    }
    return NULL;
}

/* (input, scale, zero_point, quant_min, quant_max, dtype, *, [out_dtype?,] out) */
static const char *read_per_tensor(const et_call *call, bool to_float, et_affine *affine) {
    const char *refusal = read_range(call, 3, to_float ? 7 : 6, to_float, affine);
    if (refusal != NULL) {
        return refusal;
    }
    if (!et_arg_number(call, 1, &affine->scale) || !(affine->scale > 0.0) ||
        !et_arg_int(call, 2, INT32_MIN, INT32_MAX, &affine->zero_point)) {
        return "scale or zero point";
    }
    affine->channels = (et_blocks){1, 1, et_numel(affine->out)};
    return NULL;
}

static bool is_per_channel(const et_tensor *tensor, uint8_t one, uint8_t other, int32_t channels) {
    return et_has_elements(tensor, one, channels) || et_has_elements(tensor, other, channels);
}

/* (input, scales, zero_points?, axis, quant_min, quant_max, dtype, *, [out_dtype?,] out) */
static const char *read_per_channel(const et_call *call, bool to_float, et_affine *affine) {
    const char *refusal = read_range(call, 4, to_float ? 8 : 7, to_float, affine);
    uint8_t axis;
    if (refusal != NULL) {
        return refusal;
    }
    if (!et_arg_dim(call, 3, affine->input->ndim, &axis)) {
        return "axis";
    }
    const int32_t channels = affine->input->sizes[axis];
    affine->scales = et_arg_tensor(call, 1);
    affine->zero_points = et_arg_tensor(call, 2);
    if (!is_per_channel(affine->scales, ET_FLOAT, ET_DOUBLE, channels) ||
        !(et_arg_is_none(call, 2) || is_per_channel(affine->zero_points, ET_LONG, ET_INT, channels))) {
        return "scales or zero points";
    }
    affine->channels = et_blocks_along(affine->input, axis);
    return NULL;
}

static void use_channel(et_affine *affine, uint32_t channel) {
    if (affine->scales != NULL) {
        affine->scale = et_load_number(affine->scales, channel).real;
    }
    if (affine->zero_points != NULL) {
        affine->zero_point = (int32_t)et_load_number(affine->zero_points, channel).integer;
    }
}

static et_number quantize(const et_affine *affine, et_number x) {
    const float inverse = affine->scales != NULL && affine->scales->dtype == ET_FLOAT
                              ? 1.0f / (float)affine->scale
                              : (float)(1.0 / affine->scale);
    const double rounded = (double)rintf((float)x.real * inverse) + affine->zero_point;
    const double low = rounded < affine->min || isnan(rounded) ? affine->min : rounded;
    return (et_number){.is_real = true, .real = low > affine->max ? affine->max : low};
}

static et_number dequantize(const et_affine *affine, et_number x) {
    const float offset = (float)(x.integer - affine->zero_point);
    return (et_number){.is_real = true, .real = (double)(offset * (float)affine->scale)};
}

typedef et_number (*et_affine_fn)(const et_affine *affine, et_number x);

static const char *run(et_affine *affine, const char *refusal, et_affine_fn compute) {
    const et_blocks *channels = &affine->channels;
    for (uint32_t channel = 0; refusal == NULL && channel < channels->length; channel++) {
        use_channel(affine, channel);
        for (uint32_t block = 0; block < channels->outer; block++) {
            const uint32_t start = (block * channels->length + channel) * channels->stride;
            for (uint32_t i = start; i < start + channels->stride; i++) {
                et_store_number(affine->out, i, compute(affine, et_load_number(affine->input, i)));
            }
        }
    }
    return refusal;
}

static const char *quantize_per_tensor(const et_call *call) {
    et_affine affine = {0};
    return run(&affine, read_per_tensor(call, false, &affine), quantize);
}

static const char *dequantize_per_tensor(const et_call *call) {
    et_affine affine = {0};
    return run(&affine, read_per_tensor(call, true, &affine), dequantize);
}

static const char *quantize_per_channel(const et_call *call) {
    et_affine affine = {0};
    return run(&affine, read_per_channel(call, false, &affine), quantize);
}

static const char *dequantize_per_channel(const et_call *call) {
    et_affine affine = {0};
    return run(&affine, read_per_channel(call, true, &affine), dequantize);
}

const et_kernel et_quantize_per_tensor = {"quantized_decomposed::quantize_per_tensor", "out",
                                          "native_call_quantize_per_tensor.out", 7, quantize_per_tensor};
const et_kernel et_dequantize_per_tensor = {"quantized_decomposed::dequantize_per_tensor", "out",
                                            "native_call_dequantize_per_tensor.out", 8,
                                            dequantize_per_tensor};
const et_kernel et_quantize_per_channel = {"quantized_decomposed::quantize_per_channel", "out",
                                           "native_call_quantize_per_channel.out", 8, quantize_per_channel};
const et_kernel et_dequantize_per_channel = {"quantized_decomposed::dequantize_per_channel", "out",
                                             "native_call_dequantize_per_channel.out", 9,
                                             dequantize_per_channel};
