// SPDX-License-Identifier: Apache-2.0
/* Converts int32 sums to int8 outputs in the fixed-point arithmetic of CMSIS-NN.
 *
 * A real factor is multiplier * 2^(shift - 31). */
#ifndef ETD_REQUANTIZE_H
#define ETD_REQUANTIZE_H

#include "arguments.h"

/* Range of shifts that kernels accept. */
#define ETD_SHIFT_MIN (-31)
#define ETD_SHIFT_MAX 31

/* Returns value * multiplier * 2^(shift - 31). Rounds to nearest after the multiplication, ties up, and again
 * after a right shift, ties away from zero. Results that overflow wrap. */
int32_t etd_requantize(int32_t value, int32_t multiplier, int32_t shift);

/* Output stage of a matrix or convolution kernel. */
typedef struct {
    const int32_t *bias;        /* per channel, or NULL */
    const int32_t *multipliers; /* per channel */
    const int32_t *shifts;      /* per channel */
    int32_t offset;
    int32_t min;
    int32_t max;
} etd_output_stage;

/* Reads the stage from a convolution's arguments: bias at 2; output offset, multipliers, shifts, activation
 * min and max from `first`. */
bool etd_read_output_stage(const etd_call *call, uint32_t first, int32_t channels, etd_output_stage *stage);

/* Reads `count` int32 elements of an optional tensor. */
bool etd_read_int32s(const etd_call *call, uint32_t i, int32_t count, const int32_t **numbers);

/* Returns the output for a sum without its bias. Sums are uint32_t, because they must wrap as in the
 * reference and signed overflow is undefined in C. */
int8_t etd_finish(const etd_output_stage *stage, int32_t channel, uint32_t sum);

static inline int32_t etd_clamp(int32_t value, int32_t min, int32_t max) {
    return value < min ? min : value > max ? max : value;
}

/* Returns the int8 output for a rescaled sum. Adding the offset wraps. */
static inline int8_t etd_narrow(int32_t scaled, int32_t offset, int32_t min, int32_t max) {
    return (int8_t)etd_clamp((int32_t)((uint32_t)scaled + (uint32_t)offset), min, max);
}

/* Range of shifts and biases of the fast functions below. */
#define ETD_FAST_SHIFT_MIN (-31)
#define ETD_FAST_SHIFT_MAX (-1)
#define ETD_FAST_BIAS_MAX ((1 << 28) - 1)

/* Elements in a row, at most: its sum of (x + offset) * w is then below 2^29. */
#define ETD_FAST_LENGTH_MAX ((1 << 14) - 1)

/* Returns true if etd_finish_fast may be used for sums of this many products. */
bool etd_is_fast_stage(const etd_output_stage *stage, int32_t channels, uint32_t length);

/* Returns true if biases (may be NULL) leave sums of rows of ETD_FAST_LENGTH_MAX below 2^30. */
bool etd_are_fast_biases(const int32_t *bias, int32_t count);

static inline bool etd_is_fast_shift(int32_t shift) {
    return shift >= ETD_FAST_SHIFT_MIN && shift <= ETD_FAST_SHIFT_MAX;
}

/* Returns value * multiplier / 2^31, rounded to nearest, ties up. |value| must be below 2^30. */
static inline int32_t etd_multiply_high(int32_t value, int32_t multiplier) {
    const int64_t product = (int64_t)(value * 2) * multiplier;
    return (int32_t)((uint64_t)product >> 32) + (int32_t)((uint32_t)product >> 31);
}

/* Returns the int8 output for a sum: as etd_requantize and etd_narrow, for |sum| < 2^30 and shifts from
 * ETD_FAST_SHIFT_MIN to ETD_FAST_SHIFT_MAX. */
static inline int8_t etd_scale_fast(int32_t sum, int32_t multiplier, int32_t shift, int32_t offset,
                                    int32_t min, int32_t max) {
    int32_t high = etd_multiply_high(sum, multiplier);
    high -= high < 0 ? 1 : 0; /* ties away from zero */
    /* All but one bit of the right shift; the offset is added before the last one, with the half. */
    const int32_t twice = (high >> (~shift & 31)) + 2 * offset + 1;
    return (int8_t)etd_clamp(twice >> 1, min, max);
}

/* As etd_finish, for sums and shifts of etd_scale_fast. The sum includes the bias. */
static inline int8_t etd_finish_fast(const etd_output_stage *stage, int32_t channel, int32_t sum) {
    return etd_scale_fast(sum, stage->multipliers[channel], stage->shifts[channel], stage->offset, stage->min,
                          stage->max);
}

/* Rounds to the nearest integer, ties to even, adds the zero point and clamps. NaN gives min. The range must
 * fit an int16. */
int32_t etd_round_and_clamp(float scaled, int32_t zero_point, int32_t min, int32_t max);

/* As etd_round_and_clamp, for int8. */
int8_t etd_quantize(float scaled, int32_t zero_point, int32_t min, int32_t max);

#endif
