// SPDX-License-Identifier: Apache-2.0
/* Elementwise operations of two int8 tensors, broadcast to the shape of a third.
 *
 * The loops are written for Helium and for all other CPUs, chosen when compiled. */
#ifndef ETD_INT8_PAIRS_H
#define ETD_INT8_PAIRS_H

#include "elementwise.h"

/* Runs (a, ..., b, ..., *, out) over int8 tensors: argument 0 and these. Returns NULL, or a message if they
 * are not supported; nothing is written then. */
const char *etd_run_int8_pairs(const etd_call *call, uint32_t b, uint32_t out, etd_line_fn compute,
                               const void *context);

/* The zero point of a tensor, and its factor: multiplier * 2^(shift - 31). */
typedef struct {
    int32_t zero_point;
    int32_t multiplier;
    int32_t shift;
} etd_int8_side;

typedef struct {
    etd_int8_side a;
    etd_int8_side b;
    etd_int8_side out;
    int32_t min;
    int32_t max;
} etd_int8_scales;

/* Add the inputs at a common scale: their factors and the output's. The context is an etd_int8_scales. */
void etd_add_int8s(const etd_line *line, const void *context);

/* Multiplies the inputs by each other and by the output's factor. The context is an etd_int8_scales; zero
 * points of inputs are int16. */
void etd_multiply_int8s(const etd_line *line, const void *context);

/* The smaller or larger of each pair, without a context. */
void etd_smaller_int8s(const etd_line *line, const void *context);
void etd_larger_int8s(const etd_line *line, const void *context);

#endif
