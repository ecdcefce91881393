// SPDX-License-Identifier: Apache-2.0
/* Fast int8 convolution: the taps of an output position become a column, which is multiplied with the rows of
 * weights. */
#ifndef ETD_COLUMN_CONV_H
#define ETD_COLUMN_CONV_H

#include "requantize.h"
#include "window.h"

/* Computes a convolution; weight is O, kernel y, kernel x, C / groups. Returns false, and writes
 * nothing, for arguments that only the general loops support: other memory layouts, sums out of range, or a
 * scratch (may be NULL) with too little room for two columns. A pointwise convolution needs no scratch. Uses
 * about 700 bytes of stack. */
bool etd_convolve_columns(const etd_window *window, const etd_tensor *weight, int32_t input_offset,
                          const etd_output_stage *stage, const etd_tensor *scratch);

#endif
