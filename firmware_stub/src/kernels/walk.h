/* Going through the elements of tensors whose memory is in another order than their indexes. */
#ifndef ET_WALK_H
#define ET_WALK_H

#include "et_runtime.h"

/* A walk over some dimensions, the last one added fastest. It starts again after its last element, and
 * has one element when it has no dimensions. Begin with {0}. */
typedef struct {
    uint32_t offset; /* of the present element, in elements */
    uint32_t ndim;
    int32_t sizes[ET_MAX_DIMS];
    int32_t strides[ET_MAX_DIMS];
    int32_t index[ET_MAX_DIMS];
} et_walk;

void et_walk_add(et_walk *walk, int32_t size, int32_t stride);
void et_walk_next(et_walk *walk);

/* Adds the tensor's first `ndim` dimensions. */
void et_walk_add_dims(et_walk *walk, const et_tensor *tensor, uint32_t ndim);

/* The strides with which `tensor` is read where `out` is written: 0 in dimensions that it is broadcast over.
 * False when it does not broadcast to the shape of `out`. */
bool et_broadcast_strides(const et_tensor *tensor, const et_tensor *out, int32_t strides[ET_MAX_DIMS]);

/* Copies elements from where one walk passes to where the other does; both are of the same number of
 * elements, and used up afterwards. Elements that are next to each other in both are copied at once. */
void et_copy_along(const et_tensor *from, et_walk *from_walk, et_tensor *to, et_walk *to_walk);

/* Copies all elements in the order of their indexes. */
void et_copy_in_order(const et_tensor *from, et_tensor *to);

/* A dense tensor seen along one dimension: `outer` blocks of `length` rows of `stride` elements. The row r
 * of block b begins at element (b * length + r) * stride. */
typedef struct {
    uint32_t outer;
    uint32_t length; /* the dimension's size */
    uint32_t stride;
} et_blocks;

et_blocks et_blocks_along(const et_tensor *tensor, uint32_t dim);

#endif
