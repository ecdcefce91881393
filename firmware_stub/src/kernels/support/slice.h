// SPDX-License-Identifier: Apache-2.0
/* Slices: part of a tensor along one dimension. */
#ifndef ETD_SLICE_H
#define ETD_SLICE_H

#include "arguments.h"
#include "walk.h"

/* Elements first, first + step, ... of one dimension. */
typedef struct {
    uint8_t dim;
    int32_t first;
    int32_t step;
    int32_t count;
} etd_slice;

/* Read a slice that lies within a tensor from argument `i`: (dim, start?, end?, step), or (dim, index) for
 * one element. Return NULL, or a message if not supported. */
const char *etd_arg_slice(const etd_call *call, uint32_t i, const etd_tensor *tensor, etd_slice *slice);
const char *etd_arg_select(const etd_call *call, uint32_t i, const etd_tensor *tensor, etd_slice *slice);

/* Computes the slice's sizes; if `drop`, without its dimension. Returns the number of dimensions. */
uint32_t etd_slice_sizes(const etd_tensor *tensor, const etd_slice *slice, bool drop,
                         int32_t sizes[ETD_MAX_DIMS]);

/* Returns a walk over the slice's elements in the order of their indexes. */
etd_walk etd_walk_slice(const etd_tensor *tensor, const etd_slice *slice);

/* Copies a slice to an output and resizes it. Returns false if the output cannot have the sizes. */
bool etd_copy_slice(const etd_tensor *input, const etd_slice *slice, bool drop, etd_tensor *out);

#endif
