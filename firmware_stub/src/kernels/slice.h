// SPDX-License-Identifier: Apache-2.0
/* Part of a tensor along one dimension. */
#ifndef ETD_SLICE_H
#define ETD_SLICE_H

#include "arguments.h"
#include "walk.h"

/* The elements first, first + step, ... of one dimension. */
typedef struct {
    uint8_t dim;
    int32_t first;
    int32_t step;
    int32_t count;
} etd_slice;

/* Read a slice of a tensor from arguments from `i` on: (dim, start?, end?, step), or (dim, index) for a
 * single element. The slice is within the tensor. Returns why it refuses, or NULL. */
const char *etd_arg_slice(const etd_call *call, uint32_t i, const etd_tensor *tensor, etd_slice *slice);
const char *etd_arg_select(const etd_call *call, uint32_t i, const etd_tensor *tensor, etd_slice *slice);

/* The slice's sizes, without its dimension when `drop` says so. Returns the number of dimensions. */
uint32_t etd_slice_sizes(const etd_tensor *tensor, const etd_slice *slice, bool drop,
                         int32_t sizes[ETD_MAX_DIMS]);

/* A walk over the slice's elements in the order of their indexes. */
etd_walk etd_walk_slice(const etd_tensor *tensor, const etd_slice *slice);

/* Copies a slice to an output, which gets its sizes; false when it cannot have them. */
bool etd_copy_slice(const etd_tensor *input, const etd_slice *slice, bool drop, etd_tensor *out);

#endif
