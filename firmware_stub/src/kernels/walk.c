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

void etd_walk_next(etd_walk *walk) {
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

static uint32_t count_elements(const etd_walk *walk) {
    uint32_t count = 1;
    for (uint32_t d = 0; d < walk->ndim; d++) {
        count *= (uint32_t)walk->sizes[d];
    }
    return count;
}

/* Returns the number of adjacent elements before the walk jumps. */
static uint32_t run_length(const etd_walk *walk) {
    return walk->ndim > 0 && walk->strides[walk->ndim - 1] == 1 ? (uint32_t)walk->sizes[walk->ndim - 1] : 1;
}

/* Makes the walk visit every `run`th element; `run` must divide its run length. */
static void set_walk_step(etd_walk *walk, uint32_t run) {
    if (run > 1) {
        walk->sizes[walk->ndim - 1] /= (int32_t)run;
        walk->strides[walk->ndim - 1] *= (int32_t)run;
    }
}

static uint32_t common_divisor(uint32_t a, uint32_t b) {
    while (b != 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

void etd_copy_along(const etd_tensor *from, etd_walk *from_walk, etd_tensor *to, etd_walk *to_walk) {
    const uint32_t count = count_elements(to_walk);
    if (count == 0) {
        return;
    }
    const uint32_t size = to->nbytes / etd_numel(to);
    const uint32_t run = common_divisor(run_length(from_walk), run_length(to_walk));
    set_walk_step(from_walk, run);
    set_walk_step(to_walk, run);
    for (uint32_t i = 0; i < count; i += run) {
        memmove(to->data + to_walk->offset * size, from->data + from_walk->offset * size, run * size);
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
    if (tensor->nbytes != 0) {
        blocks.outer = etd_numel(tensor) / (blocks.length * blocks.stride);
    }
    return blocks;
}
