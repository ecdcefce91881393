// SPDX-License-Identifier: Apache-2.0
#include "walk.h"

#include <string.h>

#include "arguments.h"

void etd_walk_add(etd_walk *walk, int32_t size, int32_t stride) {
    if (size == 1) {
        return;
    }
    if (walk->ndim > 0 && (uint32_t)walk->strides[walk->ndim - 1] == (uint32_t)size * (uint32_t)stride) {
        walk->sizes[walk->ndim - 1] *= size; /* continues the previous dimension, so both are merged */
        walk->strides[walk->ndim - 1] = stride;
        return;
    }
    walk->sizes[walk->ndim] = size;
    walk->strides[walk->ndim] = stride;
    walk->ndim++;
}

void etd_walk_add_dims(etd_walk *walk, const etd_tensor *tensor, uint32_t ndim) {
    for (uint32_t d = 0; d < ndim; d++) {
        etd_walk_add(walk, tensor->sizes[d], tensor->strides[d]);
    }
}

void etd_walk_carry(etd_walk *walk) {
    for (uint32_t d = walk->ndim; d-- > 0;) {
        walk->offset += (uint32_t)walk->strides[d];
        if (++walk->index[d] < walk->sizes[d]) {
            return;
        }
        walk->offset -= (uint32_t)walk->sizes[d] * (uint32_t)walk->strides[d];
        walk->index[d] = 0;
    }
}

bool etd_broadcast_strides(const etd_tensor *tensor, const etd_tensor *out, int32_t strides[ETD_MAX_DIMS]) {
    if (tensor->ndim > out->ndim) {
        return false;
    }
    const uint32_t added = (uint32_t)out->ndim - tensor->ndim;
    for (uint32_t d = 0; d < out->ndim; d++) {
        const bool single = d < added || tensor->sizes[d - added] == 1;
        if (!single && tensor->sizes[d - added] != out->sizes[d]) {
            return false;
        }
        strides[d] = single ? 0 : tensor->strides[d - added];
    }
    return true;
}

etd_walk etd_walk_broadcast(const etd_tensor *tensor, const etd_tensor *shape) {
    etd_walk walk = {0};
    int32_t strides[ETD_MAX_DIMS] = {0};
    (void)etd_broadcast_strides(tensor, shape, strides);
    for (uint32_t d = 0; d < shape->ndim; d++) {
        etd_walk_add(&walk, shape->sizes[d], strides[d]);
    }
    return walk;
}

static uint32_t count_elements(const etd_walk *walk) {
    uint32_t count = 1;
    for (uint32_t d = 0; d < walk->ndim; d++) {
        count *= (uint32_t)walk->sizes[d];
    }
    return count;
}

static int32_t common_divisor(int32_t a, int32_t b) {
    while (b != 0) {
        const int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The innermost dimension of a walk, and what is left of it. */
typedef struct {
    uint32_t dim; /* counts down; 0: the walk is used up */
    int32_t size;
    int32_t stride;
} etd_rest;

static void take_dimension(etd_rest *rest, const etd_walk *walk) {
    while (rest->size == 1 && rest->dim > 0) {
        rest->dim--;
        rest->size = walk->sizes[rest->dim];
        rest->stride = walk->strides[rest->dim];
    }
}

/* Adds a loop around the others, or makes the last one longer if it continues there on both sides. */
static uint32_t add_loop(etd_copy_loop *loops, uint32_t count, etd_copy_loop loop) {
    if (count > 0) {
        etd_copy_loop *inner = &loops[count - 1];
        if (loop.from_step == inner->count * inner->from_step &&
            loop.to_step == inner->count * inner->to_step) {
            inner->count *= loop.count;
            return count;
        }
    }
    loops[count] = loop;
    return count + 1;
}

uint32_t etd_common_loops(const etd_walk *from_walk, const etd_walk *to_walk,
                          etd_copy_loop loops[ETD_COPY_LOOPS]) {
    etd_rest from = {from_walk->ndim, 1, 0};
    etd_rest to = {to_walk->ndim, 1, 0};
    uint32_t count = 0;
    for (;;) {
        take_dimension(&from, from_walk);
        take_dimension(&to, to_walk);
        if (from.size == 1 && to.size == 1) {
            return count;
        }
        const int32_t common = common_divisor(from.size, to.size);
        if (common == 1) {
            return UINT32_MAX;
        }
        count = add_loop(loops, count, (etd_copy_loop){common, from.stride, to.stride});
        from.size /= common;
        from.stride *= common;
        to.size /= common;
        to.stride *= common;
    }
}

void etd_copy_along(const etd_tensor *from, etd_walk *from_walk, etd_tensor *to, etd_walk *to_walk) {
    etd_copy_loop loops[ETD_COPY_LOOPS];
    const uint32_t count = count_elements(to_walk);
    if (count == 0) {
        return;
    }
    const uint32_t size = to->nbytes / etd_numel(to);
    const uint32_t loop_count = etd_common_loops(from_walk, to_walk, loops);
    if (loop_count != UINT32_MAX) {
        etd_copy_strided(from->data + from_walk->offset * size, to->data + to_walk->offset * size, size,
                         loops, loop_count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        memmove(to->data + to_walk->offset * size, from->data + from_walk->offset * size, size);
        etd_walk_next(from_walk);
        etd_walk_next(to_walk);
    }
}

void etd_copy_in_order(const etd_tensor *from, etd_tensor *to) {
    etd_walk from_walk = {0};
    etd_walk to_walk = {0};
    etd_walk_add_dims(&from_walk, from, from->ndim);
    etd_walk_add_dims(&to_walk, to, to->ndim);
    etd_copy_along(from, &from_walk, to, &to_walk);
}

etd_blocks etd_blocks_along(const etd_tensor *tensor, uint32_t dim) {
    etd_blocks blocks = {0, (uint32_t)tensor->sizes[dim], (uint32_t)tensor->strides[dim]};
    if (tensor->ndim == 0) {
        blocks = (etd_blocks){1, 1, 1};
    } else if (tensor->nbytes != 0) {
        blocks.outer = etd_numel(tensor) / (blocks.length * blocks.stride);
    }
    return blocks;
}
