// SPDX-License-Identifier: Apache-2.0
/* Elements that a mask chooses, or that are not zero. How many there are is known only at run time. In a
 * corrupt file an output can overlap the mask, so loops also end when the output is full. */
#include "masks.h"

#include <string.h>

#include "../kernels.h"
#include "../support/number.h"
#include "../support/walk.h"

static bool is_chosen(const etd_tensor *mask, const etd_walk *at) {
    return mask->data[at->offset] != 0;
}

/* Returns how many elements of a walk over a mask are true. */
static uint32_t count_chosen(const etd_tensor *mask, etd_walk at, uint32_t numel) {
    uint32_t count = 0;
    for (; numel > 0; numel--) {
        count += is_chosen(mask, &at) ? 1u : 0u;
        etd_walk_next(&at);
    }
    return count;
}

static etd_walk walk_over(const etd_tensor *tensor) {
    etd_walk walk = {0};
    etd_walk_add_dims(&walk, tensor, tensor->ndim);
    return walk;
}

/* A mask in the place of index tensors: it covers dimensions of self, which become one in the result. */
typedef struct {
    const etd_tensor *mask;
    uint32_t first;    /* of the dimensions that it covers */
    etd_tensor result; /* sizes alone */
} etd_masked;

bool etd_is_index_a_mask(const etd_call *call) {
    const uint32_t count = etd_arg_list_count(call, 1);
    for (uint32_t d = 0; d < count && count != UINT32_MAX; d++) {
        if (etd_is_type(etd_arg_list_tensor(call, 1, d), ETD_BOOL)) {
            return true;
        }
    }
    return false;
}

static bool covers_dimensions(const etd_masked *masked, const etd_tensor *self) {
    const etd_tensor *mask = masked->mask;
    if (mask == NULL || mask->ndim == 0 || masked->first + mask->ndim > self->ndim) {
        return false;
    }
    return memcmp(mask->sizes, self->sizes + masked->first, mask->ndim * sizeof *mask->sizes) == 0;
}

/* Reads the mask, and computes the sizes of what it chooses. */
static const char *read_mask(const etd_call *call, const etd_tensor *self, etd_masked *masked) {
    const uint32_t count = etd_arg_list_count(call, 1);
    for (uint32_t d = 0; d < count; d++) {
        if (etd_arg_list_is_none(call, 1, d)) {
            continue;
        }
        if (masked->mask != NULL || !etd_is_type(etd_arg_list_tensor(call, 1, d), ETD_BOOL)) {
            return "supports a mask only as the only index";
        }
        masked->mask = etd_arg_list_tensor(call, 1, d);
        masked->first = d;
    }
    if (!covers_dimensions(masked, self) || count - 1u + masked->mask->ndim > self->ndim) {
        return "the mask has other sizes than the input";
    }
    const etd_tensor *mask = masked->mask;
    etd_tensor *result = &masked->result;
    for (uint32_t d = 0; d < self->ndim; d++) {
        if (d == masked->first) {
            result->sizes[result->ndim++] = (int32_t)count_chosen(mask, walk_over(mask), etd_numel(mask));
        } else if (d < masked->first || d >= masked->first + mask->ndim) {
            result->sizes[result->ndim++] = self->sizes[d];
        }
    }
    return NULL;
}

/* Returns a walk over the dimensions that a mask leaves: all but `covered` ones from `first` on. */
static etd_walk walk_around(const int32_t *sizes, const int32_t *strides, uint32_t ndim, uint32_t first,
                            uint32_t covered, uint32_t offset) {
    etd_walk walk = {.offset = offset};
    for (uint32_t d = 0; d < ndim; d++) {
        if (d < first || d >= first + covered) {
            etd_walk_add(&walk, sizes[d], strides[d]);
        }
    }
    return walk;
}

/* Returns a walk over a tensor's dimensions that the mask covers, in step with one over the mask. */
static etd_walk walk_covered(const etd_masked *masked, const etd_tensor *tensor) {
    etd_walk walk = {0};
    for (uint32_t d = 0; d < masked->mask->ndim; d++) {
        etd_walk_add(&walk, masked->mask->sizes[d], tensor->strides[masked->first + d]);
    }
    return walk;
}

const char *etd_index_by_mask(const etd_call *call, const etd_tensor *self, etd_tensor *out) {
    etd_masked masked = {0};
    const char *refusal = read_mask(call, self, &masked);
    if (refusal != NULL) {
        return refusal;
    }
    if (!etd_resize(out, masked.result.sizes, masked.result.ndim)) {
        return "invalid output size";
    }
    const uint32_t first = masked.first;
    const uint32_t count = (uint32_t)out->sizes[first];
    etd_walk at = walk_over(masked.mask);
    etd_walk place = walk_covered(&masked, self);
    for (uint32_t left = etd_numel(masked.mask), taken = 0; left > 0 && taken < count; left--) {
        if (is_chosen(masked.mask, &at)) {
            etd_walk from =
                walk_around(self->sizes, self->strides, self->ndim, first, masked.mask->ndim, place.offset);
            etd_walk to = walk_around(out->sizes, out->strides, out->ndim, first, 1,
                                      taken++ * (uint32_t)out->strides[first]);
            etd_copy_along(self, &from, out, &to);
        }
        etd_walk_next(&at);
        etd_walk_next(&place);
    }
    return NULL;
}

const char *etd_put_by_mask(const etd_call *call, const etd_tensor *self, const etd_tensor *values,
                            bool accumulate, etd_tensor *out) {
    etd_masked masked = {0};
    int32_t strides[ETD_MAX_DIMS];
    const char *refusal = read_mask(call, self, &masked);
    if (refusal != NULL) {
        return refusal;
    }
    const etd_tensor *result = &masked.result;
    if (!etd_broadcast_strides(values, result, strides)) {
        return "values do not broadcast to the indexed elements";
    }
    if (!etd_resize_like(out, self)) {
        return "invalid output size";
    }
    if (out->data != self->data) {
        etd_copy_in_order(self, out);
    }
    const uint32_t first = masked.first;
    const uint32_t count = (uint32_t)result->sizes[first];
    const uint32_t chosen_numel = etd_numel(masked.mask);
    const uint32_t around = chosen_numel == 0 ? 0 : etd_numel(out) / chosen_numel;
    etd_walk at = walk_over(masked.mask);
    etd_walk place = walk_covered(&masked, out);
    for (uint32_t left = chosen_numel, taken = 0; left > 0 && taken < count; left--) {
        if (is_chosen(masked.mask, &at)) {
            etd_walk from = walk_around(result->sizes, strides, result->ndim, first, 1,
                                        taken++ * (uint32_t)strides[first]);
            etd_walk to =
                walk_around(out->sizes, out->strides, out->ndim, first, masked.mask->ndim, place.offset);
            for (uint32_t i = 0; i < around; i++) {
                etd_put_number(out, to.offset, etd_load_number(values, from.offset), accumulate);
                etd_walk_next(&from);
                etd_walk_next(&to);
            }
        }
        etd_walk_next(&at);
        etd_walk_next(&place);
    }
    return NULL;
}

static uint32_t count_positions(const etd_tensor *shape) {
    uint32_t count = 1;
    for (uint32_t d = 0; d < shape->ndim; d++) {
        count *= (uint32_t)shape->sizes[d];
    }
    return count;
}

/* masked_select(self, mask, *, out) */
static const char *masked_select(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    const etd_tensor *mask = etd_arg_tensor(call, 1);
    etd_tensor *out = etd_arg_out(call, 2);
    etd_tensor shape = {0};
    if (self == NULL || !etd_is_type(mask, ETD_BOOL) || !etd_is_type(out, self->dtype)) {
        return "invalid type of input, mask or output";
    }
    if (!etd_broadcast_shape(&shape, self) || !etd_broadcast_shape(&shape, mask)) {
        return "input and mask do not broadcast to each other";
    }
    const uint32_t positions = count_positions(&shape);
    etd_walk from = etd_walk_broadcast(self, &shape);
    etd_walk at = etd_walk_broadcast(mask, &shape);
    const uint32_t count = count_chosen(mask, at, positions);
    const int32_t sizes[] = {(int32_t)count};
    if (!etd_resize(out, sizes, 1)) {
        return "invalid output size";
    }
    const uint32_t size = etd_element_size(self->dtype);
    for (uint32_t i = 0, taken = 0; i < positions && taken < count; i++) {
        if (is_chosen(mask, &at)) {
            memmove(out->data + taken++ * size, self->data + from.offset * size, size);
        }
        etd_walk_next(&at);
        etd_walk_next(&from);
    }
    return NULL;
}

/* masked_scatter(self, mask, source, *, out): the source's elements in order, where the mask is true */
static const char *masked_scatter(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    const etd_tensor *mask = etd_arg_tensor(call, 1);
    const etd_tensor *source = etd_arg_tensor(call, 2);
    etd_tensor *out = etd_arg_out(call, 3);
    etd_tensor shape = {0};
    if (!etd_is_numeric(self) || !etd_is_type(mask, ETD_BOOL) || !etd_is_type(source, self->dtype) ||
        !etd_is_type(out, self->dtype)) {
        return "invalid type of input, mask, source or output";
    }
    if (!etd_broadcast_shape(&shape, self) || !etd_broadcast_shape(&shape, mask)) {
        return "input and mask do not broadcast to each other";
    }
    const uint32_t positions = count_positions(&shape);
    etd_walk at = etd_walk_broadcast(mask, &shape);
    const uint32_t count = count_chosen(mask, at, positions);
    if (count > etd_numel(source)) {
        return "the source has fewer elements than the mask chooses";
    }
    if (!etd_resize_like(out, &shape)) {
        return "invalid output size";
    }
    (void)etd_assign(self, out);
    etd_walk from = walk_over(source);
    etd_walk to = walk_over(out);
    const uint32_t size = etd_element_size(self->dtype);
    for (uint32_t i = 0, taken = 0; i < positions && taken < count; i++) {
        if (is_chosen(mask, &at)) {
            memmove(out->data + to.offset * size, source->data + from.offset * size, size);
            etd_walk_next(&from);
            taken++;
        }
        etd_walk_next(&at);
        etd_walk_next(&to);
    }
    return NULL;
}

/* nonzero(self, *, out): the indexes of elements that are not zero, one row each */
static const char *nonzero(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 1);
    if (!etd_is_numeric(self) || !etd_is_type(out, ETD_LONG)) {
        return "invalid type of input or output";
    }
    const uint32_t numel = etd_numel(self);
    uint32_t count = 0;
    for (uint32_t i = 0; i < numel; i++) {
        count += etd_holds(etd_load_number(self, i)) ? 1u : 0u;
    }
    const int32_t sizes[] = {(int32_t)count, self->ndim};
    if (!etd_resize(out, sizes, 2)) {
        return "invalid output size";
    }
    etd_walk at = walk_over(self);
    for (uint32_t i = 0, row = 0; i < numel && row < count; i++) {
        if (etd_holds(etd_load_number(self, at.offset))) {
            uint32_t rest = i;
            for (uint32_t d = self->ndim; d-- > 0;) {
                const etd_number index = {.integer = rest % (uint32_t)self->sizes[d]};
                etd_store_number(out, row * (uint32_t)out->strides[0] + d * (uint32_t)out->strides[1], index);
                rest /= (uint32_t)self->sizes[d];
            }
            row++;
        }
        etd_walk_next(&at);
    }
    return NULL;
}

ETD_ATEN_KERNEL(masked_scatter, "masked_scatter", "out", 4, masked_scatter)
ETD_ATEN_KERNEL(masked_select, "masked_select", "out", 3, masked_select)
ETD_ATEN_KERNEL(nonzero, "nonzero", "out", 2, nonzero)
