// SPDX-License-Identifier: Apache-2.0
/* Iterates over the elements of tensors with any memory layout. */
#ifndef ETD_WALK_H
#define ETD_WALK_H

#include "strided_copy.h"

/* A walk over dimensions; the last one added changes fastest. It restarts after its last element. Without
 * dimensions it has one element. Initialize with {0}. */
typedef struct {
    uint32_t offset; /* of the current element, in elements */
    uint32_t ndim;
    int32_t sizes[ETD_MAX_DIMS];
    int32_t strides[ETD_MAX_DIMS];
    int32_t index[ETD_MAX_DIMS];
} etd_walk;

void etd_walk_add(etd_walk *walk, int32_t size, int32_t stride);

/* As etd_walk_next, at the end of the innermost dimension. */
void etd_walk_carry(etd_walk *walk);

static inline void etd_walk_next(etd_walk *walk) {
    const uint32_t last = walk->ndim - 1u;
    if (walk->ndim > 0 && walk->index[last] + 1 < walk->sizes[last]) {
        walk->index[last]++;
        walk->offset += (uint32_t)walk->strides[last];
        return;
    }
    etd_walk_carry(walk);
}

/* The elements of the innermost dimension. */
typedef struct {
    uint32_t count;
    int32_t stride;
} etd_walk_run;

static inline etd_walk_run etd_innermost(const etd_walk *walk) {
    const uint32_t last = walk->ndim - 1u;
    return walk->ndim == 0 ? (etd_walk_run){1, 0}
                           : (etd_walk_run){(uint32_t)walk->sizes[last], walk->strides[last]};
}

/* Returns the elements from the current one to the end of its line. */
static inline uint32_t etd_walk_left(const etd_walk *walk) {
    const uint32_t last = walk->ndim - 1u;
    return walk->ndim == 0 ? 1u : (uint32_t)(walk->sizes[last] - walk->index[last]);
}

/* Moves forward by `count` elements, at most to the start of the next line. */
static inline void etd_walk_skip(etd_walk *walk, uint32_t count) {
    const uint32_t last = walk->ndim - 1u;
    if (walk->ndim > 0) {
        walk->index[last] += (int32_t)(count - 1u);
        walk->offset += (count - 1u) * (uint32_t)walk->strides[last];
    }
    etd_walk_next(walk);
}

/* Moves to the start of the next line. */
static inline void etd_walk_next_line(etd_walk *walk) {
    etd_walk_skip(walk, etd_walk_left(walk));
}

/* Adds the first `ndim` dimensions of the tensor. */
void etd_walk_add_dims(etd_walk *walk, const etd_tensor *tensor, uint32_t ndim);

/* Computes the strides for reading `tensor` at the indexes of `out`: 0 in broadcast dimensions. Returns false
 * if it does not broadcast to the shape of `out`. */
bool etd_broadcast_strides(const etd_tensor *tensor, const etd_tensor *out, int32_t strides[ETD_MAX_DIMS]);

/* Returns a walk over a tensor that broadcasts to the sizes of `shape`, in the order of their indexes. */
etd_walk etd_walk_broadcast(const etd_tensor *tensor, const etd_tensor *shape);

/* Divides two walks over as many elements into loops that both have in common, the innermost first. Returns
 * their number, or UINT32_MAX if sizes such as 2 * 3 and 3 * 2 have none. */
uint32_t etd_common_loops(const etd_walk *from_walk, const etd_walk *to_walk,
                          etd_copy_loop loops[ETD_COPY_LOOPS]);

/* Copies elements from the positions of one walk to those of the other. Both must have the same number of
 * elements; their state is undefined afterwards. Elements adjacent in both are copied together. */
void etd_copy_along(const etd_tensor *from, etd_walk *from_walk, etd_tensor *to, etd_walk *to_walk);

/* Copies all elements in the order of their indexes. */
void etd_copy_in_order(const etd_tensor *from, etd_tensor *to);

/* A dense tensor seen along one dimension: `outer` blocks of `length` rows of `stride` elements. Row r of
 * block b begins at element (b * length + r) * stride. */
typedef struct {
    uint32_t outer;
    uint32_t length; /* size of the dimension */
    uint32_t stride;
} etd_blocks;

etd_blocks etd_blocks_along(const etd_tensor *tensor, uint32_t dim);

#endif
