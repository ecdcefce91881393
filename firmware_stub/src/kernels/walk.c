#include "walk.h"

#include <string.h>

#include "arguments.h"

void et_walk_add(et_walk *walk, int32_t size, int32_t stride) {
    if (size == 1) {
        return;
    }
    if (walk->ndim > 0 && (uint32_t)walk->strides[walk->ndim - 1] == (uint32_t)size * (uint32_t)stride) {
        walk->sizes[walk->ndim - 1] *= size; /* the dimension before goes on where this one ends */
        walk->strides[walk->ndim - 1] = stride;
        return;
    }
    walk->sizes[walk->ndim] = size;
    walk->strides[walk->ndim] = stride;
    walk->ndim++;
}

void et_walk_add_dims(et_walk *walk, const et_tensor *tensor, uint32_t ndim) {
    for (uint32_t d = 0; d < ndim; d++) {
        et_walk_add(walk, tensor->sizes[d], tensor->strides[d]);
    }
}

void et_walk_next(et_walk *walk) {
    for (uint32_t d = walk->ndim; d-- > 0;) {
        walk->offset += (uint32_t)walk->strides[d];
        if (++walk->index[d] < walk->sizes[d]) {
            return;
        }
        walk->offset -= (uint32_t)walk->sizes[d] * (uint32_t)walk->strides[d];
        walk->index[d] = 0;
    }
}

bool et_broadcast_strides(const et_tensor *tensor, const et_tensor *out, int32_t strides[ET_MAX_DIMS]) {
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

static uint32_t count_elements(const et_walk *walk) {
    uint32_t count = 1;
    for (uint32_t d = 0; d < walk->ndim; d++) {
        count *= (uint32_t)walk->sizes[d];
    }
    return count;
}

/* How many elements the walk passes that are next to each other, before it jumps. */
static uint32_t run_length(const et_walk *walk) {
    return walk->ndim > 0 && walk->strides[walk->ndim - 1] == 1 ? (uint32_t)walk->sizes[walk->ndim - 1] : 1;
}

/* Makes the walk pass only each `run`th element; `run` divides its run length. */
static void walk_by(et_walk *walk, uint32_t run) {
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

void et_copy_along(const et_tensor *from, et_walk *from_walk, et_tensor *to, et_walk *to_walk) {
    const uint32_t count = count_elements(to_walk);
    if (count == 0) {
        return;
    }
    const uint32_t size = to->nbytes / et_numel(to);
    const uint32_t run = common_divisor(run_length(from_walk), run_length(to_walk));
    walk_by(from_walk, run);
    walk_by(to_walk, run);
    for (uint32_t i = 0; i < count; i += run) {
        memmove(to->data + to_walk->offset * size, from->data + from_walk->offset * size, run * size);
        et_walk_next(from_walk);
        et_walk_next(to_walk);
    }
}

void et_copy_in_order(const et_tensor *from, et_tensor *to) {
    et_walk from_walk = {0};
    et_walk to_walk = {0};
    et_walk_add_dims(&from_walk, from, from->ndim);
    et_walk_add_dims(&to_walk, to, to->ndim);
    et_copy_along(from, &from_walk, to, &to_walk);
}

et_blocks et_blocks_along(const et_tensor *tensor, uint32_t dim) {
    et_blocks blocks = {0, (uint32_t)tensor->sizes[dim], (uint32_t)tensor->strides[dim]};
    if (tensor->nbytes != 0) {
        blocks.outer = et_numel(tensor) / (blocks.length * blocks.stride);
    }
    return blocks;
}
