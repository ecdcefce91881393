// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/requantize.h"
#include "../support/walk.h"

/* Outputs are probabilities in steps of 1/256; 0 is at -128. */
#define STEPS 256.0f
#define OUTPUT_ZERO_POINT (-128)

/* Added to a small number, it leaves the nearest integer in the low bits, ties to even. */
#define ROUND 12582912.0f

/* Integer bits of CMSIS-NN's input to exp. */
#define INPUT_INTEGER_BITS 5

typedef struct {
    float scale;
    int32_t zero_point;
    uint32_t length;
    uint32_t step; /* between the elements of a line */
} etd_softmax;

static float dequantize(const etd_softmax *softmax, int8_t x) {
    return (float)(x - softmax->zero_point) * softmax->scale;
}

/* A float and its bits. */
typedef union {
    float real;
    uint32_t bits;
} etd_bits;

/* Returns exp(x) for x <= 0, as precise as expf: 2^n * exp(r), with r within log(2) / 2 and the polynomial of
 * Cephes. What is below 2^-126 is 0. */
static float exponential(float x) {
    static const float factors[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                                    5.0000001201e-1f};
    if (x < -87.0f) {
        return 0.0f;
    }
    const etd_bits steps = {.real = x * 1.44269504089f + ROUND};
    const float n = steps.real - ROUND;
    const float r = x - n * 0.693359375f + n * 2.12194440e-4f; /* log(2) in two parts */
    float sum = 1.9875691500e-4f;
    for (uint32_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        sum = sum * r + factors[i];
    }
    etd_bits power = {.real = sum * (r * r) + r + 1.0f};
    power.bits += steps.bits << 23;
    return power.real;
}

/* Computes one line. Exponentials are computed twice, because storing them would need memory. */
static void softmax_line(const etd_softmax *softmax, const int8_t *x, int8_t *y) {
    const uint32_t end = softmax->length * softmax->step;
    int32_t largest = INT8_MIN;
    for (uint32_t i = 0; i < end; i += softmax->step) {
        largest = x[i] > largest ? x[i] : largest;
    }
    const float max = dequantize(softmax, (int8_t)largest);
    float sum = 0.0f;
    for (uint32_t i = 0; i < end; i += softmax->step) {
        sum += exponential(dequantize(softmax, x[i]) - max);
    }
    for (uint32_t i = 0; i < end; i += softmax->step) {
        const float probability = exponential(dequantize(softmax, x[i]) - max) / sum;
        const etd_bits rounded = {.real = probability * STEPS + ROUND};
        const int32_t steps = (int32_t)(rounded.bits & 0xFFFFu);
        y[i] = (int8_t)(steps > UINT8_MAX ? INT8_MAX : steps + OUTPUT_ZERO_POINT);
    }
}

/* softmax(input, dim, input_zero_point, output_zero_point, input_multiplier, input_shift, diff_min, *, out).
 * diff_min only saves work in integer implementations. */
static const char *softmax(const etd_call *call) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 7);
    etd_softmax line;
    uint8_t dim;
    int32_t output_zero_point;
    int32_t multiplier;
    int32_t shift;
    if (!etd_is_type(input, ETD_CHAR) || !etd_is_type(out, ETD_CHAR)) {
        return "supports only int8";
    }
    if (!etd_take_layout(out, input)) {
        return "input and output differ in shape or layout";
    }
    if (!etd_arg_dim(call, 1, input->ndim, &dim)) {
        return "invalid dim";
    }
    if (!etd_arg_int(call, 2, INT8_MIN, INT8_MAX, &line.zero_point) ||
        !etd_arg_int(call, 3, OUTPUT_ZERO_POINT, OUTPUT_ZERO_POINT, &output_zero_point) ||
        !etd_arg_int(call, 4, 1, INT32_MAX, &multiplier) ||
        !etd_arg_int(call, 5, ETD_SHIFT_MIN, ETD_SHIFT_MAX, &shift)) {
        return "invalid quantization parameters";
    }
    etd_blocks blocks = etd_blocks_along(input, dim);
    line.scale = (float)ldexp((double)multiplier, shift - 31 - (31 - INPUT_INTEGER_BITS));
    line.length = blocks.length;
    line.step = blocks.stride;
    for (uint32_t block = 0; block < blocks.outer; block++) {
        uint32_t start = block * blocks.length * blocks.stride;
        for (uint32_t i = start; i < start + blocks.stride; i++) {
            softmax_line(&line, etd_int8s(input) + i, etd_out_int8s(out) + i);
        }
    }
    return NULL;
}

const etd_kernel etd_cortex_m_softmax = {"cortex_m::softmax", "out", "native_call_softmax.out", 8, softmax};
