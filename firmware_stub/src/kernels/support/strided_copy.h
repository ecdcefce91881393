// SPDX-License-Identifier: Apache-2.0
/* Copies between arrays with any distances between their elements, such as transposes. */
#ifndef ETD_STRIDED_COPY_H
#define ETD_STRIDED_COPY_H

#include <stdint.h>

#include "etd_runtime.h"

/* Loops of a copy at most: as many as two tensors have different boundaries between dimensions. */
#define ETD_COPY_LOOPS (2 * ETD_MAX_DIMS)

/* One of the nested loops of a copy, and the distances between its elements. */
typedef struct {
    int32_t count;
    int32_t from_step;
    int32_t to_step;
} etd_copy_loop;

/* Copies elements of 1, 2, 4 or 8 bytes, aligned to their size. Takes at most ETD_COPY_LOOPS loops, none of
 * them empty; without loops it copies one element. Changes the order of the loops where that is faster. */
void etd_copy_strided(const uint8_t *from, uint8_t *to, uint32_t size, etd_copy_loop *loops, uint32_t count);

#endif
