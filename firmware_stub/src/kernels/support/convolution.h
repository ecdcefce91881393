// SPDX-License-Identifier: Apache-2.0
/* Convolutions of float32 images and lines, and transposed ones: one operator, two loops. */
#ifndef ETD_CONVOLUTION_H
#define ETD_CONVOLUTION_H

#include "window.h"

typedef struct {
    etd_window window;
    etd_tensor weight;      /* O, C / groups, kernel y, kernel x; transposed: C, O / groups, .. */
    const etd_tensor *bias; /* O, or NULL */
    int32_t groups;
    bool transposed;
} etd_convolution;

/* Fills in the tensors of a 1-d or 2-d convolution, in the form of a 2-d one. Returns false for other
 * tensors. */
bool etd_read_convolution(const etd_call *call, etd_convolution *conv);

/* Reads the other arguments of a transposed convolution. Returns NULL, or a message if not supported. */
const char *etd_read_transposed_convolution(const etd_call *call, etd_convolution *conv);

void etd_run_transposed_convolution(const etd_convolution *conv);

#endif
