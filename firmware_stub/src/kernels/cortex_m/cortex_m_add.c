// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/int8_pairs.h"
#include "../support/requantize.h"

/* Fractional bits that CMSIS-NN adds before it brings both inputs to one scale. */
#define HEADROOM (1 << 20)

typedef struct {
    int32_t zero_point;
    int32_t multiplier;
    int32_t shift;
} etd_side;

typedef struct {
    etd_side a;
    etd_side b;
    etd_side out;
    int32_t min;
    int32_t max;
} etd_quantized_add;

static bool read_side(const etd_call *call, uint32_t first, etd_side *side) {
    return etd_arg_int(call, first, INT8_MIN, INT8_MAX, &side->zero_point) &&
           etd_arg_int(call, first + 1, -INT32_MAX, INT32_MAX, &side->multiplier) &&
           etd_arg_int(call, first + 2, ETD_SHIFT_MIN, ETD_SHIFT_MAX, &side->shift);
}

static uint32_t rescale(const etd_side *side, int8_t x) {
    return (uint32_t)etd_requantize((x - side->zero_point) * HEADROOM, side->multiplier, side->shift);
}

static int8_t add_elements(const void *context, int8_t a, int8_t b) {
    const etd_quantized_add *add = context;
    const uint32_t sum = rescale(&add->a, a) + rescale(&add->b, b);
    const int32_t scaled = etd_requantize((int32_t)sum, add->out.multiplier, add->out.shift);
    return etd_narrow(scaled, add->out.zero_point, add->min, add->max);
}

/* A multiplication and a right shift, with what rounds ties away from zero: half a step, less one for
 * negative numbers. */
typedef struct {
    int32_t multiplier;
    int32_t right;
    int32_t half;
    uint32_t negative; /* 1, or 0 if nothing is shifted out */
} etd_right_shift;

static etd_right_shift right_shift(const etd_side *side) {
    const int32_t right = -side->shift;
    return (etd_right_shift){side->multiplier, right, right > 0 ? 1 << (right - 1) : 0, right > 0 ? 1u : 0u};
}

/* As etd_requantize, for |value| < 2^30. */
static inline int32_t rescale_fast(const etd_right_shift *shift, int32_t value) {
    const int32_t high = etd_multiply_high(value, shift->multiplier);
    const uint32_t less = ((uint32_t)high >> 31) & shift->negative;
    return (high + shift->half - (int32_t)less) >> shift->right;
}

/* Adds tensors of one layout. No shift may be to the left. The inputs then are below 2^28 at their common
 * scale, their sum below 2^29. */
static void add_fast(const etd_int8_pairs *pairs, const etd_quantized_add *add) {
    const etd_right_shift a_shift = right_shift(&add->a);
    const etd_right_shift b_shift = right_shift(&add->b);
    const etd_right_shift out_shift = right_shift(&add->out);
    const int32_t a_zero = add->a.zero_point;
    const int32_t b_zero = add->b.zero_point;
    const int32_t out_zero = add->out.zero_point;
    const int32_t min = add->min;
    const int32_t max = add->max;
    const int8_t *a = etd_int8s(pairs->a);
    const int8_t *b = etd_int8s(pairs->b);
    int8_t *y = etd_out_int8s(pairs->out);
    for (int8_t *end = y + etd_numel(pairs->out); y != end; y++) {
        const int32_t sum = rescale_fast(&a_shift, (*a++ - a_zero) * HEADROOM) +
                            rescale_fast(&b_shift, (*b++ - b_zero) * HEADROOM);
        *y = (int8_t)etd_clamp(rescale_fast(&out_shift, sum) + out_zero, min, max);
    }
}

/* quantized_add(self, self_zero_point, self_multiplier, self_shift, other, other_zero_point,
 * other_multiplier, other_shift, output_zero_point, output_multiplier, output_shift, activation_min,
 * activation_max, *, out); a - b is exported with a negative multiplier */
static const char *quantized_add(const etd_call *call) {
    etd_int8_pairs pairs;
    etd_quantized_add add;
    const char *refusal = etd_read_int8_pairs(call, 0, 4, 13, &pairs);
    if (refusal != NULL) {
        return refusal;
    }
    if (!read_side(call, 1, &add.a) || !read_side(call, 5, &add.b) || !read_side(call, 8, &add.out) ||
        !etd_arg_int(call, 11, INT8_MIN, INT8_MAX, &add.min) ||
        !etd_arg_int(call, 12, add.min, INT8_MAX, &add.max)) {
        return "invalid quantization parameters";
    }
    if (etd_have_one_layout(&pairs) && add.a.shift <= 0 && add.b.shift <= 0 && add.out.shift <= 0) {
        add_fast(&pairs, &add);
    } else {
        etd_map_int8_pairs(&pairs, add_elements, &add);
    }
    return NULL;
}

const etd_kernel etd_cortex_m_add = {"cortex_m::quantized_add", "out", "native_call_quantized_add.out", 14,
                                     quantized_add};
