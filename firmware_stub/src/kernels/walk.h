// SPDX-License-Identifier: Apache-2.0
/* Going through the elements of tensors whose memory is in another order than their indexes. */
#ifndef ETD_WALK_H
#define ETD_WALK_H

#include "etd_runtime.h"

/* A walk over some dimensions, the last one added fastest. It starts again after its last element, and
 * has one element when it has no dimensions. Begin with {0}. */
typedef struct {
    uint32_t offset; /* of the present element, in elements */
    uint32_t ndim;
    int32_t sizes[ETD_MAX_DIMS];
    int32_t strides[ETD_MAX_DIMS];
    int32_t index[ETD_MAX_DIMS];
} etd_walk;

void etd_walk_add(etd_walk *walk, int32_t size, int32_t stride);
void etd_walk_next(etd_walk *walk);

/* Adds the tensor's first `ndim` dimensions. */
void etd_walk_add_dims(etd_walk *walk, const etd_tensor *tensor, uint32_t ndim);

/* The strides with which `tensor` is read where `out` is written: 0 in dimensions that it is broadcast over.
 * False when it does not broadcast to the shape of `out`. */
bool etd_broadcast_strides(const etd_tensor *tensor, const etd_tensor *out, int32_t strides[ETD_MAX_DIMS]);

/* Copies elements from where one walk passes to where the other does; both are of the same number of
 * elements, and used up afterwards. Elements that are next to each other in both are copied at once. */
void etd_copy_along(const etd_tensor *from, etd_walk *from_walk, etd_tensor *to, etd_walk *to_walk);

/* Copies all elements in the order of their indexes. */
void etd_copy_in_order(const etd_tensor *from, etd_tensor *to);

/* A dense tensor seen along one dimension: `outer` blocks of `length` rows of `stride` elements. The row r
 * of block b begins at element (b * length + r) * stride. */
typedef struct {
    uint32_t outer;
    uint32_t length; /* the dimension's size */
    uint32_t stride;
} etd_blocks;

etd_blocks etd_blocks_along(const etd_tensor *tensor, uint32_t dim);

#endif
