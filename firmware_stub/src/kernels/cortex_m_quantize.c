#include "arguments.h"
#include "kernels.h"
#include "requantize.h"

typedef struct {
    const et_tensor *input;
    et_tensor *out;
    double scale;
    int32_t zero_point;
    int32_t min;
    int32_t max;
} et_quantization;

/* quantize_per_tensor and dequantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, *,
 * out); dtype is that of the quantized side. */
static const char *read_arguments(const et_call *call, uint8_t from, uint8_t to,
                                  et_quantization *quantization) {
    int32_t dtype;
    quantization->input = et_arg_tensor(call, 0);
    quantization->out = et_arg_out(call, 6);
    if (!et_is_type(quantization->input, from) || !et_is_type(quantization->out, to) ||
        !et_arg_int(call, 5, ET_CHAR, ET_CHAR, &dtype)) {
        return "only between float32 and int8";
    }
    if (!et_take_layout(quantization->out, quantization->input)) {
        return "input and output differ in shape or layout";
    }
    if (!et_arg_number(call, 1, &quantization->scale) || !(quantization->scale > 0.0) ||
        !et_arg_int(call, 2, INT8_MIN, INT8_MAX, &quantization->zero_point) ||
        !et_arg_int(call, 3, INT8_MIN, INT8_MAX, &quantization->min) ||
        !et_arg_int(call, 4, quantization->min, INT8_MAX, &quantization->max)) {
        return "scale, zero point or range";
    }
    return NULL;
}

static const char *quantize(const et_call *call) {
    et_quantization q;
    const char *refusal = read_arguments(call, ET_FLOAT, ET_CHAR, &q);
    if (refusal != NULL) {
        return refusal;
    }
    const float *x = et_floats(q.input);
    int8_t *y = et_out_int8s(q.out);
    const uint32_t numel = et_numel(q.out);
    const float inverse = (float)(1.0 / q.scale); /* the reference multiplies; dividing rounds differently */
    for (uint32_t i = 0; i < numel; i++) {
        y[i] = et_quantize(x[i] * inverse, q.zero_point, q.min, q.max);
    }
    return NULL;
}

static const char *dequantize(const et_call *call) {
    et_quantization q;
    const char *refusal = read_arguments(call, ET_CHAR, ET_FLOAT, &q);
    if (refusal != NULL) {
        return refusal;
    }
    const int8_t *x = et_int8s(q.input);
    float *y = et_out_floats(q.out);
    const uint32_t numel = et_numel(q.out);
    for (uint32_t i = 0; i < numel; i++) {
        y[i] = (float)(x[i] - q.zero_point) * (float)q.scale;
    }
    return NULL;
}

const et_kernel et_cortex_m_quantize = {"cortex_m::quantize_per_tensor", "out",
                                        "native_call_quantize_per_tensor.out", 7, quantize};
const et_kernel et_cortex_m_dequantize = {"cortex_m::dequantize_per_tensor", "out",
                                          "native_call_dequantize_per_tensor.out", 7, dequantize};
