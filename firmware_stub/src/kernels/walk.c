#include "walk.h"

#include <string.h>

#include "arguments.h"

void et_walk_add(et_walk *walk, int32_t size, int32_t stride) {
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

void et_copy_along(const et_tensor *from, et_walk *from_walk, et_tensor *to, et_walk *to_walk) {
    uint32_t numel = et_numel(to);
    uint32_t size = numel == 0 ? 0 : to->nbytes / numel;
    for (uint32_t i = 0; i < numel; i++) {
        memmove(to->data + to_walk->offset * size, from->data + from_walk->offset * size, size);
        et_walk_next(from_walk);
        et_walk_next(to_walk);
    }
}

et_blocks et_blocks_along(const et_tensor *tensor, uint32_t dim) {
    et_blocks blocks = {0, (uint32_t)tensor->sizes[dim], (uint32_t)tensor->strides[dim]};
    if (tensor->nbytes != 0) {
        blocks.outer = et_numel(tensor) / (blocks.length * blocks.stride);
    }
    return blocks;
}
