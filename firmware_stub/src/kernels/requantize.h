// SPDX-License-Identifier: Apache-2.0
/* From an int32 sum to an int8 output, in the fixed-point arithmetic of CMSIS-NN.
 *
 * A real factor is multiplier * 2^(shift - 31). */
#ifndef ETD_REQUANTIZE_H
#define ETD_REQUANTIZE_H

#include "arguments.h"

/* Shifts that kernels accept. */
#define ETD_SHIFT_MIN (-31)
#define ETD_SHIFT_MAX 31

/* value * multiplier * 2^(shift - 31), for a multiplier that is not negative: rounded to nearest, ties up,
 * after the multiplication, and again, ties away from zero, after a right shift. Results that overflow wrap.
 */
int32_t etd_requantize(int32_t value, int32_t multiplier, int32_t shift);

/* What a matrix or convolution kernel does with its sums. */
typedef struct {
    const int32_t *bias;        /* per channel, or NULL */
    const int32_t *multipliers; /* per channel */
    const int32_t *shifts;      /* per channel */
    int32_t offset;
    int32_t min;
    int32_t max;
} etd_output_stage;

/* Reads the stage from a convolution's arguments: bias at 2, and from `first` output offset, multipliers,
 * shifts, activation min and max. */
bool etd_read_output_stage(const etd_call *call, uint32_t first, int32_t channels, etd_output_stage *stage);

/* Reads so many int32s of an optional tensor. */
bool etd_read_int32s(const etd_call *call, uint32_t i, int32_t count, const int32_t **numbers);

/* The output for a sum without its bias. Sums are uint32_t: they wrap like the reference's, which signed ones
 * must not in C. */
int8_t etd_finish(const etd_output_stage *stage, int32_t channel, uint32_t sum);

static inline int32_t etd_clamp(int32_t value, int32_t min, int32_t max) {
    return value < min ? min : value > max ? max : value;
}

/* The int8 output for a rescaled sum; adding the offset wraps. */
static inline int8_t etd_narrow(int32_t scaled, int32_t offset, int32_t min, int32_t max) {
    return (int8_t)etd_clamp((int32_t)((uint32_t)scaled + (uint32_t)offset), min, max);
}

/* Rounds to the nearest integer, ties to even, adds the zero point and clamps. NaN gives min. The range is
 * that of an int16 at most. */
int32_t etd_round_and_clamp(float scaled, int32_t zero_point, int32_t min, int32_t max);

/* The same for int8. */
int8_t etd_quantize(float scaled, int32_t zero_point, int32_t min, int32_t max);

#endif
