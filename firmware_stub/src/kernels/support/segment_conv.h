// SPDX-License-Identifier: Apache-2.0
/* int8 convolution of one output position: products of rows of weights with segments of an image, which are
 * the channels of each tap. */
#ifndef ETD_SEGMENT_CONV_H
#define ETD_SEGMENT_CONV_H

#include "dot.h"
#include "requantize.h"
#include "window.h"

typedef struct {
    etd_window window;
    const etd_tensor *weight; /* O, kernel y, kernel x, C / groups */
    int32_t groups;
    int32_t input_offset;
    etd_output_stage stage;
    bool is_fast; /* set by etd_start_segments */
} etd_segment_conv;

/* Reads input, weight and the quantization parameters from `first` on, the output at `out`. Returns NULL, or
 * a message if not supported. */
const char *etd_read_segment_conv(const etd_call *call, etd_layout layout, uint32_t first, uint32_t out,
                                  etd_segment_conv *conv);

/* Chooses the loops, after the axes are read. */
void etd_start_segments(etd_segment_conv *conv);

/* Computes all output channels of a position. x and w are at the first tap, y is the first channel. Uses
 * about 500 bytes of stack. */
void etd_convolve_segments(const etd_segment_conv *conv, const etd_grid *taps, const int8_t *x,
                           const int8_t *w, int8_t *y);

#endif
