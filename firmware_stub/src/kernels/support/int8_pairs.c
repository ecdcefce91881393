// SPDX-License-Identifier: Apache-2.0
#include "int8_pairs.h"

#include "cpu.h"
#include "requantize.h"

/* Fractional bits that CMSIS-NN adds before it brings both inputs of a sum to one scale. */
#define HEADROOM_BITS 20
#define HEADROOM (1 << HEADROOM_BITS)

/* Zero points of inputs up to here leave a product below 2^30. */
#define FAST_ZERO_POINT 16384

const char *etd_run_int8_pairs(const etd_call *call, uint32_t b, uint32_t out, etd_line_fn compute,
                               const void *context) {
    const etd_tensor *tensors[] = {etd_arg_tensor(call, 0), etd_arg_tensor(call, b)};
    etd_tensor *to = etd_arg_out(call, out);
    if (!etd_is_type(tensors[0], ETD_CHAR) || !etd_is_type(tensors[1], ETD_CHAR) ||
        !etd_is_type(to, ETD_CHAR)) {
        return "supports only int8";
    }
    if (!etd_resize_broadcast(to, tensors[0], tensors[1])) {
        return "inputs do not broadcast to the output";
    }
    etd_run_lines(tensors[0], tensors[1], to, compute, context);
    return NULL;
}

/* Positions in a line that is being computed. Outputs are adjacent, as lines follow their layout. */
typedef struct {
    const int8_t *a;
    const int8_t *b;
    int8_t *y;
    const int8_t *end;
} etd_int8_cursor;

static inline etd_int8_cursor start(const etd_line *line) {
    int8_t *y = (int8_t *)line->out;
    return (etd_int8_cursor){(const int8_t *)line->a, (const int8_t *)line->b, y, y + line->count};
}

static inline void advance(etd_int8_cursor *at, const etd_line *line, uint32_t count) {
    at->a += count * line->a_step;
    at->b += count * line->b_step;
    at->y += count;
}

/* A multiplication and a right shift, with what rounds ties away from zero: half a step, less one for
 * negative numbers. */
typedef struct {
    int32_t multiplier;
    int32_t right;
    int32_t half;
    uint32_t negative; /* 1, or 0 if nothing is shifted out */
} etd_right_shift;

static etd_right_shift right_shift(const etd_int8_side *side) {
    const int32_t right = -side->shift;
    return (etd_right_shift){side->multiplier, right, right > 0 ? 1 << (right - 1) : 0, right > 0 ? 1u : 0u};
}

/* As etd_requantize, for |value| < 2^30. */
static inline int32_t rescale(const etd_right_shift *shift, int32_t value) {
    const int32_t high = etd_multiply_high(value, shift->multiplier);
    const uint32_t less = ((uint32_t)high >> 31) & shift->negative;
    return (high + shift->half - (int32_t)less) >> shift->right;
}

/* As rescale, with any shift. */
static inline int32_t rescale_any(const etd_int8_side *side, int32_t value) {
    return etd_requantize(value, side->multiplier, side->shift);
}

#if ETD_MVE
#define LANES 4

static inline uint32x4_t offsets_of(uint32_t step) {
    return vmulq_n_u32(vidupq_n_u32(0, 1), step);
}

/* Loads four elements that are `step` apart. */
static ETD_INLINE int32x4_t load_four(const int8_t *from, uint32_t step) {
    return step == 1 ? vldrbq_s32(from) : vldrbq_gather_offset_s32(from, offsets_of(step));
}

/* As rescale. The shift is not to the left: its sign tells whether negative numbers lose one. */
static inline int32x4_t rescale_four(const etd_int8_side *side, int32x4_t values) {
    const int32x4_t high = vqrdmulhq_n_s32(values, side->multiplier);
    const int32x4_t less = vshrq_n_s32(vandq_s32(high, vdupq_n_s32(side->shift)), 31);
    return vrshlq_n_s32(vaddq_s32(high, less), side->shift);
}

static inline int32x4_t finish_four(const etd_int8_scales *scales, int32x4_t values) {
    const int32x4_t scaled = vaddq_n_s32(rescale_four(&scales->out, values), scales->out.zero_point);
    return vminq_s32(vmaxq_s32(scaled, vdupq_n_s32(scales->min)), vdupq_n_s32(scales->max));
}

/* Returns four sums at a common scale, or four products. */
static ETD_INLINE int32x4_t four_of(const etd_int8_scales *scales, int32x4_t a, int32x4_t b, bool is_sum) {
    a = vsubq_n_s32(a, scales->a.zero_point);
    b = vsubq_n_s32(b, scales->b.zero_point);
    if (is_sum) {
        a = rescale_four(&scales->a, vshlq_n_s32(a, HEADROOM_BITS));
        b = rescale_four(&scales->b, vshlq_n_s32(b, HEADROOM_BITS));
        return finish_four(scales, vaddq_s32(a, b));
    }
    return finish_four(scales, vmulq_s32(a, b));
}

/* Computes what is left of a line but for a few. */
static ETD_INLINE void run_fours(etd_int8_cursor *at, const etd_line *line, const etd_int8_scales *given,
                                 bool is_sum) {
    const etd_int8_scales scales = *given;
    const etd_line dense = {.a_step = 1, .b_step = line->b_step};
    if (line->a_step == 1 && line->b_step == 1) {
        for (; at->end - at->y >= LANES; advance(at, &dense, LANES)) {
            vstrbq_s32(at->y, four_of(&scales, load_four(at->a, 1), load_four(at->b, 1), is_sum));
        }
    } else if (line->a_step == 1 && line->b_step == 0) {
        const int32x4_t b = vdupq_n_s32(*at->b);
        for (; at->end - at->y >= LANES; advance(at, &dense, LANES)) {
            vstrbq_s32(at->y, four_of(&scales, load_four(at->a, 1), b, is_sum));
        }
    }
    for (; at->end - at->y >= LANES; advance(at, line, LANES)) {
        const int32x4_t a = load_four(at->a, line->a_step);
        const int32x4_t b = load_four(at->b, line->b_step);
        vstrbq_s32(at->y, four_of(&scales, a, b, is_sum));
    }
}
#else
#define run_fours(at, line, scales, is_sum) ((void)(at))
#endif

/* Without shifts to the left, the inputs are below 2^28 at their common scale, their sum below 2^29. */
void etd_add_int8s(const etd_line *line, const void *context) {
    const etd_int8_scales *add = context;
    const etd_int8_side *to = &add->out;
    etd_int8_cursor at = start(line);
    const int32_t a_zero = add->a.zero_point;
    const int32_t b_zero = add->b.zero_point;
    const int32_t min = add->min;
    const int32_t max = add->max;
    if (add->a.shift > 0 || add->b.shift > 0 || !etd_is_fast_shift(to->shift)) {
        for (; at.y != at.end; advance(&at, line, 1)) {
            const int32_t sum = (int32_t)((uint32_t)rescale_any(&add->a, (*at.a - a_zero) * HEADROOM) +
                                          (uint32_t)rescale_any(&add->b, (*at.b - b_zero) * HEADROOM));
            *at.y = etd_narrow(rescale_any(to, sum), to->zero_point, min, max);
        }
        return;
    }
    run_fours(&at, line, add, true);
    const etd_right_shift a_shift = right_shift(&add->a);
    const etd_right_shift b_shift = right_shift(&add->b);
    const etd_int8_side out = *to;
    for (; at.y != at.end; advance(&at, line, 1)) {
        const int32_t sum =
            rescale(&a_shift, (*at.a - a_zero) * HEADROOM) + rescale(&b_shift, (*at.b - b_zero) * HEADROOM);
        *at.y = etd_scale_fast(sum, out.multiplier, out.shift, out.zero_point, min, max);
    }
}

static bool is_near(int32_t zero_point) {
    return zero_point >= -FAST_ZERO_POINT && zero_point <= FAST_ZERO_POINT;
}

void etd_multiply_int8s(const etd_line *line, const void *context) {
    const etd_int8_scales *mul = context;
    etd_int8_cursor at = start(line);
    const int32_t a_zero = mul->a.zero_point;
    const int32_t b_zero = mul->b.zero_point;
    const etd_int8_side out = mul->out;
    const bool is_fast = etd_is_fast_shift(out.shift) && is_near(a_zero) && is_near(b_zero);
    if (is_fast) {
        run_fours(&at, line, mul, false);
    }
    for (; at.y != at.end; advance(&at, line, 1)) {
        const int32_t product = (*at.a - a_zero) * (*at.b - b_zero);
        *at.y = is_fast
                    ? etd_scale_fast(product, out.multiplier, out.shift, out.zero_point, INT8_MIN, INT8_MAX)
                    : etd_narrow(rescale_any(&out, product), out.zero_point, INT8_MIN, INT8_MAX);
    }
}

#if ETD_MVE
/* Computes what is left but for a few, where steps are 0 or 1. */
static ETD_INLINE void choose_sixteens(etd_int8_cursor *at, const etd_line *line, bool is_larger) {
    if (line->a_step > 1 || line->b_step > 1) {
        return;
    }
    for (; at->end - at->y >= 16; advance(at, line, 16)) {
        const int8x16_t a = line->a_step != 0 ? vldrbq_s8(at->a) : vdupq_n_s8(*at->a);
        const int8x16_t b = line->b_step != 0 ? vldrbq_s8(at->b) : vdupq_n_s8(*at->b);
        vstrbq_s8(at->y, is_larger ? vmaxq_s8(a, b) : vminq_s8(a, b));
    }
}
#else
#define choose_sixteens(at, line, is_larger) ((void)(at))
#endif

static ETD_INLINE void choose(const etd_line *line, bool is_larger) {
    etd_int8_cursor at = start(line);
    choose_sixteens(&at, line, is_larger);
    for (; at.y != at.end; advance(&at, line, 1)) {
        const int8_t a = *at.a;
        const int8_t b = *at.b;
        *at.y = is_larger == (a > b) ? a : b;
    }
}

void etd_smaller_int8s(const etd_line *line, const void *context) {
    (void)context;
    choose(line, false);
}

void etd_larger_int8s(const etd_line *line, const void *context) {
    (void)context;
    choose(line, true);
}
