// SPDX-License-Identifier: Apache-2.0
/* Reads and writes at positions given by index tensors. All indexes are checked before anything is written.
 */
#include <string.h>

#include "../kernels.h"
#include "../support/elementwise.h"
#include "../support/slice.h"
#include "masks.h"

/* Returns a walk over a tensor in step with one over `shape`. It stays in place along `dim`, where the
 * indexes give the position. */
static etd_walk walk_beside(const etd_tensor *tensor, const etd_tensor *shape, uint8_t dim) {
    etd_walk walk = {0};
    for (uint8_t d = 0; d < shape->ndim; d++) {
        etd_walk_add(&walk, shape->sizes[d], d == dim ? 0 : tensor->strides[d]);
    }
    return walk;
}

/* Returns true if `inner` has the dimensions of `outer` and is nowhere larger, except along `except`. */
static bool is_inside(const etd_tensor *inner, const etd_tensor *outer, uint32_t except) {
    for (uint32_t d = 0; d < inner->ndim && d < outer->ndim; d++) {
        if (d != except && inner->sizes[d] > outer->sizes[d]) {
            return false;
        }
    }
    return inner->ndim == outer->ndim;
}

/* Reads dim and index (arguments 1 and 2) and checks the indexes. Returns NULL, or a message if invalid. */
static const char *read_indices(const etd_call *call, const etd_tensor *self, uint8_t *dim,
                                const etd_tensor **indices) {
    *indices = etd_arg_tensor(call, 2);
    if (!etd_is_index(*indices)) {
        return "supports only int32 and int64 indices";
    }
    if (!etd_arg_dim(call, 1, self->ndim, dim)) {
        return "invalid dim";
    }
    return etd_are_within(*indices, 0, self->sizes[*dim]) ? NULL : "index out of range";
}

/* gather(self, dim, index, *, sparse_grad, out): out[i][j] = self[index[i][j]][j] for dim 0 */
static const char *gather(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 4);
    const etd_tensor *indices;
    uint8_t dim;
    if (self == NULL || !etd_is_type(out, self->dtype)) {
        return "input and output differ in type";
    }
    const char *refusal = read_indices(call, self, &dim, &indices);
    if (refusal != NULL) {
        return refusal;
    }
    if (!is_inside(indices, self, dim) || !etd_resize_like(out, indices)) {
        return "invalid size of index or output";
    }
    const uint32_t size = etd_element_size(self->dtype);
    etd_walk from = walk_beside(self, indices, dim);
    etd_walk at = {0};
    etd_walk to = {0};
    etd_walk_add_dims(&at, indices, indices->ndim);
    etd_walk_add_dims(&to, out, out->ndim);
    for (uint32_t left = etd_numel(indices); left > 0; left--) {
        const uint32_t index = etd_load_index(indices, at.offset, self->sizes[dim]);
        const uint32_t place = from.offset + index * (uint32_t)self->strides[dim];
        memmove(out->data + to.offset * size, self->data + place * size, size);
        etd_walk_next(&from);
        etd_walk_next(&at);
        etd_walk_next(&to);
    }
    return NULL;
}

/* Common part of scatters: the source is a tensor, or one number. */
static const char *scatter_to(const etd_call *call, const etd_tensor *source, const etd_number *value,
                              bool accumulate) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 4);
    const etd_tensor *indices;
    uint8_t dim;
    if (!etd_is_numeric(self) || !etd_is_type(out, self->dtype)) {
        return "input and output differ in type";
    }
    const char *refusal = read_indices(call, self, &dim, &indices);
    if (refusal != NULL) {
        return refusal;
    }
    if (!is_inside(indices, self, dim) || (source != NULL && !is_inside(indices, source, ETD_MAX_DIMS)) ||
        !etd_resize_like(out, self)) {
        return "invalid size of index, src or output";
    }
    etd_walk at = {0};
    etd_walk from = {0};
    etd_walk to = walk_beside(out, indices, dim);
    etd_walk_add_dims(&at, indices, indices->ndim);
    if (source != NULL) {
        for (uint32_t d = 0; d < indices->ndim; d++) {
            etd_walk_add(&from, indices->sizes[d], source->strides[d]);
        }
    }
    etd_copy_in_order(self, out);
    for (uint32_t left = etd_numel(indices); left > 0; left--) {
        const uint32_t index = etd_load_index(indices, at.offset, self->sizes[dim]);
        const etd_number number = source != NULL ? etd_load_number(source, from.offset) : *value;
        etd_put_number(out, to.offset + index * (uint32_t)out->strides[dim], number, accumulate);
        etd_walk_next(&at);
        etd_walk_next(&from);
        etd_walk_next(&to);
    }
    return NULL;
}

static const char *scatter_tensor(const etd_call *call, bool accumulate) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    const etd_tensor *source = etd_arg_tensor(call, 3);
    if (self == NULL || !etd_is_type(source, self->dtype)) {
        return "input and src differ in type";
    }
    return scatter_to(call, source, NULL, accumulate);
}

/* scatter(self, dim, index, src, *, out): out[index[i][j]][j] = src[i][j] for dim 0 */
static const char *scatter(const etd_call *call) {
    return scatter_tensor(call, false);
}

/* scatter_add(self, dim, index, src, *, out) */
static const char *scatter_add(const etd_call *call) {
    return scatter_tensor(call, true);
}

/* scatter(self, dim, index, value, *, out) */
static const char *scatter_value(const etd_call *call) {
    etd_number value;
    return etd_arg_scalar(call, 3, &value) ? scatter_to(call, NULL, &value, false) : "invalid value";
}

/* What scatter_reduce makes of the old and the new numbers of a place. */
enum { SUM, PROD, MEAN, AMAX, AMIN, REDUCTIONS };

typedef struct {
    const etd_tensor *source;
    const etd_tensor *indices;
    etd_tensor *out;
    int32_t kind;
    uint8_t dim;
    bool include_self;
} etd_scatter;

static etd_number reduced(int32_t kind, etd_number old, etd_number added) {
    switch (kind) {
    case PROD:
        old.real *= added.real;
        old.integer = (int64_t)((uint64_t)old.integer * (uint64_t)added.integer);
        return old;
    case AMAX:
    case AMIN:
        return etd_limit(old, added, kind == AMIN);
    default:
        old.real += added.real;
        old.integer = (int64_t)((uint64_t)old.integer + (uint64_t)added.integer);
        return old;
    }
}

/* Reduces all sources into the output. `starts`: puts the number that a reduction starts with instead, which
 * for extremes is a source. */
static void reduce_sources(const etd_scatter *scatter, bool starts) {
    const etd_tensor *indices = scatter->indices;
    const etd_tensor *out = scatter->out;
    const int32_t kind = scatter->kind;
    etd_walk at = {0};
    etd_walk from = {0};
    etd_walk to = walk_beside(out, indices, scatter->dim);
    etd_walk_add_dims(&at, indices, indices->ndim);
    for (uint32_t d = 0; d < indices->ndim; d++) {
        etd_walk_add(&from, indices->sizes[d], scatter->source->strides[d]);
    }
    for (uint32_t left = etd_numel(indices); left > 0; left--) {
        const uint32_t index = etd_load_index(indices, at.offset, out->sizes[scatter->dim]);
        const uint32_t place = to.offset + index * (uint32_t)out->strides[scatter->dim];
        etd_number number = etd_load_number(scatter->source, from.offset);
        if (!starts) {
            number = reduced(kind, etd_load_number(out, place), number);
        } else if (kind != AMAX && kind != AMIN) {
            number.real = kind == PROD ? 1.0 : 0.0;
            number.integer = kind == PROD;
        }
        etd_store_number(out, place, number);
        etd_walk_next(&at);
        etd_walk_next(&from);
        etd_walk_next(&to);
    }
}

/* Returns how many of a line's indexes are equal to the one at `place`; 0 if an earlier one is. */
static int32_t count_equal(const etd_scatter *scatter, uint32_t line, int32_t place) {
    const int32_t size = scatter->out->sizes[scatter->dim];
    const uint32_t stride = (uint32_t)scatter->indices->strides[scatter->dim];
    const uint32_t index = etd_load_index(scatter->indices, line + (uint32_t)place * stride, size);
    int32_t count = 0;
    for (int32_t i = 0; i < scatter->indices->sizes[scatter->dim]; i++) {
        if (etd_load_index(scatter->indices, line + (uint32_t)i * stride, size) == index) {
            if (i < place) {
                return 0;
            }
            count++;
        }
    }
    return count;
}

/* Makes means of sums. Without memory for counts, the time is quadratic in the indexes along the dimension.
 */
static void divide_by_counts(const etd_scatter *scatter) {
    const etd_tensor *out = scatter->out;
    const int32_t length = scatter->indices->sizes[scatter->dim];
    etd_tensor lines = *scatter->indices;
    lines.sizes[scatter->dim] = length > 0 ? 1 : 0;
    etd_walk to = walk_beside(out, &lines, scatter->dim);
    etd_walk at = walk_beside(scatter->indices, &lines, scatter->dim);
    for (uint32_t left = etd_numel(&lines); left > 0; left--) {
        for (int32_t i = 0; i < length; i++) {
            const int32_t count = count_equal(scatter, at.offset, i);
            if (count == 0) {
                continue;
            }
            const uint32_t step = (uint32_t)scatter->indices->strides[scatter->dim];
            const uint32_t index =
                etd_load_index(scatter->indices, at.offset + (uint32_t)i * step, out->sizes[scatter->dim]);
            const uint32_t place = to.offset + index * (uint32_t)out->strides[scatter->dim];
            etd_number number = etd_load_number(out, place);
            const int64_t divisor = (int64_t)count + scatter->include_self;
            const int64_t rest = number.integer % divisor;
            number.real /= (double)divisor;
            number.integer = number.integer / divisor - (rest < 0); /* rounded down */
            etd_store_number(out, place, number);
        }
        etd_walk_next(&at);
        etd_walk_next(&to);
    }
}

static bool read_reduction(const etd_call *call, etd_scatter *scatter) {
    static const char *const names[REDUCTIONS] = {"sum", "prod", "mean", "amax", "amin"};
    for (scatter->kind = 0; scatter->kind < REDUCTIONS; scatter->kind++) {
        if (etd_arg_is_text(call, 4, names[scatter->kind])) {
            return etd_arg_bool(call, 5, &scatter->include_self);
        }
    }
    return false;
}

/* scatter_reduce(self, dim, index, src, reduce, *, include_self, out) */
static const char *scatter_reduce(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    etd_scatter scatter = {.source = etd_arg_tensor(call, 3), .out = etd_arg_out(call, 6)};
    if (!etd_is_numeric(self) || self->dtype == ETD_BOOL || !etd_is_type(scatter.source, self->dtype) ||
        !etd_is_type(scatter.out, self->dtype)) {
        return "input, src and output differ in type, or are bool";
    }
    const char *refusal = read_indices(call, self, &scatter.dim, &scatter.indices);
    if (refusal != NULL) {
        return refusal;
    }
    if (!read_reduction(call, &scatter)) {
        return "invalid reduce or include_self";
    }
    if (!is_inside(scatter.indices, self, scatter.dim) ||
        !is_inside(scatter.indices, scatter.source, ETD_MAX_DIMS) || !etd_resize_like(scatter.out, self)) {
        return "invalid size of index, src or output";
    }
    etd_copy_in_order(self, scatter.out);
    if (!scatter.include_self) {
        reduce_sources(&scatter, true);
    }
    reduce_sources(&scatter, false);
    if (scatter.kind == MEAN) {
        divide_by_counts(&scatter);
    }
    return NULL;
}

/* index_select(self, dim, index, *, out): slices of one element, as often as there are indexes */
static const char *index_select(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 3);
    const etd_tensor *indices;
    etd_slice from = {.step = 1, .count = 1};
    int32_t sizes[ETD_MAX_DIMS];
    if (self == NULL || !etd_is_type(out, self->dtype)) {
        return "input and output differ in type";
    }
    const char *refusal = read_indices(call, self, &from.dim, &indices);
    if (refusal != NULL) {
        return refusal;
    }
    memcpy(sizes, self->sizes, sizeof sizes);
    sizes[from.dim] = (int32_t)etd_numel(indices);
    if (indices->ndim > 1 || !etd_resize(out, sizes, self->ndim)) {
        return "invalid size of index or output";
    }
    etd_slice to = from;
    for (to.first = 0; to.first < sizes[from.dim]; to.first++) {
        from.first = (int32_t)etd_load_index(indices, (uint32_t)to.first, self->sizes[from.dim]);
        etd_walk from_walk = etd_walk_slice(self, &from);
        etd_walk to_walk = etd_walk_slice(out, &to);
        etd_copy_along(self, &from_walk, out, &to_walk);
    }
    return NULL;
}

/* repeat_interleave(repeats, *, output_size?, out): each index as often as its element says */
static const char *repeat_interleave(const etd_call *call) {
    const etd_tensor *repeats = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 2);
    int64_t total = 0;
    int64_t expected;
    if (!etd_is_index(repeats) || repeats->ndim != 1 || !etd_is_type(out, repeats->dtype)) {
        return "supports only a vector of int32 or int64, and the same type as the output";
    }
    const uint32_t count = etd_numel(repeats);
    for (uint32_t i = 0; i < count; i++) {
        const int64_t times = etd_load_number(repeats, i).integer;
        if (times < 0 || times > INT32_MAX - total) {
            return "invalid repeats";
        }
        total += times;
    }
    if (!etd_arg_is_none(call, 1) && (!etd_arg_int64(call, 1, &expected) || expected != total)) {
        return "output_size is not the sum of repeats";
    }
    const int32_t size = (int32_t)total;
    if (!etd_resize(out, &size, 1)) {
        return "invalid output size";
    }
    int32_t place = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t times = etd_load_number(repeats, i).integer;
        for (; times > 0 && place < size; times--) { /* an output may overlap repeats in a corrupt file */
            etd_store_number(out, (uint32_t)place++, (etd_number){.integer = i});
        }
    }
    return NULL;
}

/* Advanced indexing: a list with an index tensor, or None, for each of the first dimensions. The index
 * tensors are broadcast to joint dimensions, which replace the indexed ones; they come first if other
 * dimensions lie between the indexed ones. */
typedef struct {
    const etd_tensor *tensors[ETD_MAX_DIMS]; /* per dimension of self; NULL if not indexed */
    etd_tensor joint;                        /* sizes that the index tensors broadcast to */
    etd_tensor result;                       /* sizes alone */
    uint32_t place;                          /* position of the joint dimensions in the result */
} etd_lookup;

/* Reads the index tensors (argument 1) and checks them. Negative indexes count from the end. */
static const char *read_lookup(const etd_call *call, const etd_tensor *self, etd_lookup *lookup) {
    const uint32_t count = etd_arg_list_count(call, 1);
    uint32_t groups = 0; /* of adjacent indexed dimensions */
    if (count == 0 || count > self->ndim) {
        return "invalid number of indices";
    }
    for (uint32_t d = 0; d < count; d++) {
        const etd_tensor *tensor = etd_arg_list_tensor(call, 1, d);
        if (tensor == NULL && etd_arg_list_is_none(call, 1, d)) {
            continue;
        }
        if (tensor == NULL || !etd_is_index(tensor)) {
            return "supports only int32, int64 and boolean indices";
        }
        if (!etd_are_within(tensor, -(int64_t)self->sizes[d], self->sizes[d])) {
            return "index out of range";
        }
        if (!etd_broadcast_shape(&lookup->joint, tensor)) {
            return "indices do not broadcast to each other";
        }
        if (d == 0 || lookup->tensors[d - 1] == NULL) {
            lookup->place = groups++ == 0 ? d : 0;
        }
        lookup->tensors[d] = tensor;
    }
    return groups > 0 ? NULL : "no index tensor";
}

static bool add_to_result(etd_lookup *lookup, int32_t size) {
    if (lookup->result.ndim == ETD_MAX_DIMS) {
        return false;
    }
    lookup->result.sizes[lookup->result.ndim++] = size;
    return true;
}

static bool add_joint(etd_lookup *lookup) {
    for (uint32_t d = 0; d < lookup->joint.ndim; d++) {
        if (!add_to_result(lookup, lookup->joint.sizes[d])) {
            return false;
        }
    }
    return true;
}

/* Computes the result's sizes from the joint dimensions and those that are not indexed. */
static bool plan_result(const etd_tensor *self, etd_lookup *lookup) {
    for (uint32_t d = 0; d < self->ndim; d++) {
        if (lookup->tensors[d] != NULL) {
            continue;
        }
        if (lookup->result.ndim == lookup->place && !add_joint(lookup)) {
            return false;
        }
        if (!add_to_result(lookup, self->sizes[d])) {
            return false;
        }
    }
    return lookup->result.ndim != lookup->place || add_joint(lookup);
}

/* Returns the offset of the element of an index tensor at a joint position. */
static uint32_t index_offset(const etd_tensor *indices, const etd_tensor *joint, uint32_t position) {
    uint32_t offset = 0;
    for (uint32_t d = joint->ndim, left = indices->ndim; left-- > 0;) {
        const uint32_t size = (uint32_t)joint->sizes[--d];
        offset += indices->sizes[left] == 1 ? 0u : position % size * (uint32_t)indices->strides[left];
        position /= size;
    }
    return offset;
}

/* Returns where the dimensions that are not indexed start in self, at a joint position. Most index tensors
 * have an element for each of them in this order: `direct` is the set of their dimensions. */
static uint32_t chosen_place(const etd_tensor *self, const etd_lookup *lookup, uint32_t direct,
                             uint32_t position) {
    uint32_t place = 0;
    for (uint32_t d = 0; d < self->ndim; d++) {
        const etd_tensor *indices = lookup->tensors[d];
        if (indices != NULL) {
            const bool is_direct = (direct >> d & 1u) != 0;
            const uint32_t offset = is_direct ? position : index_offset(indices, &lookup->joint, position);
            place += etd_load_index(indices, offset, self->sizes[d]) * (uint32_t)self->strides[d];
        }
    }
    return place;
}

/* What is done with the indexed elements. */
typedef enum { READ, WRITE, ADD } etd_transfer;

/* Plans the moves along dimensions that are not indexed, of the indexed tensor and of the other one. Returns
 * the number of their positions, and in bits of `direct` which indices need no broadcast. */
static uint32_t plan_sides(const etd_tensor *indexed, const etd_lookup *lookup, const int32_t *strides,
                           etd_walk sides[2], uint32_t *direct) {
    const etd_tensor *joint = &lookup->joint;
    uint32_t kept = 0; /* result dimension of the next one that is not indexed */
    uint32_t count = 1;
    for (uint32_t d = 0; d < indexed->ndim; d++) {
        const etd_tensor *indices = lookup->tensors[d];
        if (indices != NULL) {
            const bool is_direct = etd_is_contiguous(indices) && etd_numel(indices) == etd_numel(joint);
            *direct |= (is_direct ? 1u : 0u) << d;
        } else {
            kept += kept == lookup->place ? joint->ndim : 0u;
            etd_walk_add(&sides[0], indexed->sizes[d], indexed->strides[d]);
            etd_walk_add(&sides[1], indexed->sizes[d], strides[kept++]);
            count *= (uint32_t)indexed->sizes[d];
        }
    }
    return count;
}

/* Adds numbers of another tensor to the indexed one. */
static void add_sides(const etd_tensor *indexed, uint32_t place, const etd_tensor *other, uint32_t from,
                      etd_walk sides[2], uint32_t count) {
    for (uint32_t left = count; left > 0; left--) {
        const etd_number number = etd_load_number(other, from + sides[1].offset);
        etd_put_number(indexed, place + sides[0].offset, number, true);
        etd_walk_next(&sides[0]);
        etd_walk_next(&sides[1]);
    }
}

static ETD_INLINE void move_run(uint8_t *to, const uint8_t *from, uint32_t bytes) {
    if (bytes == sizeof(uint32_t)) {
        memmove(to, from, sizeof(uint32_t)); /* without a call */
    } else if (bytes == 1) {
        *to = *from;
    } else {
        memmove(to, from, bytes);
    }
}

/* Moves elements between the indexed tensor and another one, with strides along the dimensions of the result.
 * All positions that are not indexed are moved at once. */
static void transfer(const etd_tensor *indexed, const etd_lookup *lookup, const etd_tensor *other,
                     const int32_t *strides, etd_transfer kind) {
    const etd_tensor *joint = &lookup->joint;
    const uint32_t size = etd_element_size(indexed->dtype);
    etd_walk at = {0}; /* joint positions of the other tensor */
    etd_walk sides[2] = {0};
    etd_copy_loop loops[ETD_COPY_LOOPS];
    uint32_t direct = 0;
    for (uint32_t d = 0; d < joint->ndim; d++) {
        etd_walk_add(&at, joint->sizes[d], strides[lookup->place + d]);
    }
    const uint32_t count = plan_sides(indexed, lookup, strides, sides, &direct);
    const uint32_t positions = count == 0 ? 0 : etd_numel(joint);
    const bool is_read = kind == READ;
    const uint32_t depth = positions == 0 ? 0 : etd_common_loops(&sides[!is_read], &sides[is_read], loops);
    const uint32_t bytes = count * size;
    const bool is_run = depth == 0 || (depth == 1 && loops[0].from_step == 1 && loops[0].to_step == 1);
    for (uint32_t i = 0; i < positions; i++) {
        const uint32_t place = chosen_place(indexed, lookup, direct, i);
        uint8_t *inside = indexed->data + place * size;
        uint8_t *outside = other->data + at.offset * size;
        const uint8_t *from = is_read ? inside : outside;
        uint8_t *to = is_read ? outside : inside;
        if (kind == ADD) {
            add_sides(indexed, place, other, at.offset, sides, count);
        } else if (is_run) {
            move_run(to, from, bytes);
        } else {
            etd_copy_strided(from, to, size, loops, depth);
        }
        etd_walk_next(&at);
    }
}

/* index(self, indices[], *, out) */
static const char *index_tensor(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 2);
    etd_lookup lookup = {.joint = {.ndim = 0}};
    if (self == NULL || !etd_is_type(out, self->dtype)) {
        return "input and output differ in type";
    }
    if (etd_is_index_a_mask(call)) {
        return etd_index_by_mask(call, self, out);
    }
    const char *refusal = read_lookup(call, self, &lookup);
    if (refusal != NULL) {
        return refusal;
    }
    if (!plan_result(self, &lookup) || !etd_resize(out, lookup.result.sizes, lookup.result.ndim)) {
        return "invalid output size";
    }
    transfer(self, &lookup, out, out->strides, READ);
    return NULL;
}

/* Puts values into the output, which is self or becomes a copy of it. */
static const char *put_values(const etd_call *call, const etd_tensor *self, etd_tensor *out) {
    const etd_tensor *values = etd_arg_tensor(call, 2);
    etd_lookup lookup = {.joint = {.ndim = 0}};
    int32_t strides[ETD_MAX_DIMS];
    bool accumulate;
    if (!etd_is_numeric(self) || !etd_is_type(values, self->dtype) || !etd_is_type(out, self->dtype)) {
        return "input, values and output differ in type";
    }
    if (!etd_arg_bool(call, 3, &accumulate)) {
        return "invalid accumulate";
    }
    if (etd_is_index_a_mask(call)) {
        return etd_put_by_mask(call, self, values, accumulate, out);
    }
    const char *refusal = read_lookup(call, self, &lookup);
    if (refusal != NULL) {
        return refusal;
    }
    if (!plan_result(self, &lookup) || !etd_broadcast_strides(values, &lookup.result, strides)) {
        return "values do not broadcast to the indexed elements";
    }
    if (!etd_resize_like(out, self)) {
        return "invalid output size";
    }
    if (out->data != self->data) {
        etd_copy_in_order(self, out);
    }
    transfer(out, &lookup, values, strides, accumulate ? ADD : WRITE);
    return NULL;
}

/* index_put(self, indices[], values, accumulate, *, out) */
static const char *index_put(const etd_call *call) {
    return put_values(call, etd_arg_tensor(call, 0), etd_arg_out(call, 4));
}

/* index_put_(self, indices[], values, accumulate): writes to self */
static const char *index_put_in_place(const etd_call *call) {
    return put_values(call, etd_arg_tensor(call, 0), etd_arg_out(call, 0));
}

/* masked_fill(self, mask, value, *, out) */
static const char *masked_fill(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    const etd_tensor *mask = etd_arg_tensor(call, 1);
    etd_tensor *out = etd_arg_out(call, 3);
    etd_number value;
    _Alignas(8) uint8_t element[8];
    if (!etd_is_numeric(self) || !etd_is_type(out, self->dtype) || !etd_is_type(mask, ETD_BOOL)) {
        return "invalid type of input, mask or output";
    }
    if (!etd_arg_scalar(call, 2, &value)) {
        return "invalid value";
    }
    if (!etd_resize_broadcast(out, self, mask)) {
        return "inputs do not broadcast to the output";
    }
    const etd_tensor filling = {.data = element, .dtype = out->dtype};
    etd_store_number(&filling, 0, value);
    (void)etd_assign(self, out);
    etd_put_where(&filling, mask, out);
    return NULL;
}

ETD_ATEN_KERNEL(gather, "gather", "out", 5, gather)
ETD_ATEN_KERNEL(index, "index", "Tensor_out", 3, index_tensor)
ETD_ATEN_KERNEL(index_put, "index_put", "out", 5, index_put)
ETD_ATEN_KERNEL(index_select, "index_select", "out", 4, index_select)
ETD_ATEN_KERNEL(masked_fill, "masked_fill", "Scalar_out", 4, masked_fill)
ETD_ATEN_KERNEL(repeat_interleave, "repeat_interleave", "Tensor_out", 3, repeat_interleave)
ETD_ATEN_KERNEL(scatter, "scatter", "src_out", 5, scatter)
ETD_ATEN_KERNEL(scatter_add, "scatter_add", "out", 5, scatter_add)
ETD_ATEN_KERNEL(scatter_reduce, "scatter_reduce", "two_out", 7, scatter_reduce)
ETD_ATEN_KERNEL(scatter_value, "scatter", "value_out", 5, scatter_value)

const etd_kernel etd_aten_index_put_in_place = {"aten::index_put_", "", "native_call_index_put_", 4,
                                                index_put_in_place};
