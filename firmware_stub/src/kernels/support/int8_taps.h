// SPDX-License-Identifier: Apache-2.0
/* The inner loops of int8 depthwise convolution: four output channels at a time over the taps of a patch. */
#ifndef ETD_INT8_TAPS_H
#define ETD_INT8_TAPS_H

#include "dot.h"
#include "requantize.h"

/* Computes `channels` adjacent outputs of one position from their weights, which are adjacent at each tap.
 * The inputs are as many channels, adjacent at each tap, too, or one channel that all outputs share. The
 * stage must pass etd_is_fast_stage. Uses about 450 bytes of stack. */
void etd_convolve_taps(const int8_t *x, const int8_t *w, const etd_grid *taps, bool is_shared, int32_t offset,
                       const etd_output_stage *stage, int32_t channels, int8_t *y);

/* Adds up the taps of each of `count` adjacent channels. There is room for a multiple of 8 sums. */
void etd_add_up(const int8_t *x, const etd_grid *taps, int32_t *sums, int32_t count);

/* Replaces each number by that of x if it is larger. */
void etd_take_larger(int8_t *y, const int8_t *x, int32_t count);

#endif
