// SPDX-License-Identifier: Apache-2.0
/* Copies with other positions: flip, transpose, unfold, diagonals, pixels, repeat, roll, triangles. */
#include <string.h>

#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/walk.h"

/* The output's dimensions as strides in the input. */
typedef struct {
    uint32_t ndim;
    int32_t sizes[ETD_MAX_DIMS];
    int32_t strides[ETD_MAX_DIMS]; /* negative: backwards */
    uint32_t start;                /* offset of the first element */
} etd_route;

static void add_dim(etd_route *route, int32_t size, int32_t stride) {
    route->sizes[route->ndim] = size;
    route->strides[route->ndim] = stride;
    route->ndim++;
}

static etd_route straight(const etd_tensor *input) {
    etd_route route = {.ndim = input->ndim};
    memcpy(route.sizes, input->sizes, sizeof route.sizes);
    memcpy(route.strides, input->strides, sizeof route.strides);
    return route;
}

static const char *read_tensors(const etd_call *call, uint32_t out_at, const etd_tensor **input,
                                etd_tensor **out) {
    *input = etd_arg_tensor(call, 0);
    *out = etd_arg_out(call, out_at);
    return *input == NULL || !etd_is_type(*out, (*input)->dtype) ? "input and output differ in type" : NULL;
}

static const char *copy_by(const etd_tensor *input, const etd_route *route, etd_tensor *out) {
    etd_walk from = {.offset = route->start};
    etd_walk to = {0};
    if (!etd_resize(out, route->sizes, route->ndim)) {
        return "invalid output size";
    }
    for (uint32_t d = 0; d < route->ndim; d++) {
        etd_walk_add(&from, route->sizes[d], route->strides[d]);
    }
    etd_walk_add_dims(&to, out, out->ndim);
    etd_copy_along(input, &from, out, &to);
    return NULL;
}

/* flip(input, dims, *, out) */
static const char *flip(const etd_call *call) {
    const etd_tensor *input;
    etd_tensor *out;
    uint8_t dims[ETD_MAX_DIMS];
    uint8_t count;
    const char *refusal = read_tensors(call, 2, &input, &out);
    if (refusal != NULL) {
        return refusal;
    }
    if (!etd_arg_dims(call, 1, input->ndim, dims, &count)) {
        return "invalid dims";
    }
    etd_route route = straight(input);
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t d = dims[i];
        route.start += (uint32_t)(input->sizes[d] - 1) * (uint32_t)input->strides[d];
        route.strides[d] = -input->strides[d];
    }
    return copy_by(input, &route, out);
}

static const char *swap_dims(const etd_tensor *input, uint8_t a, uint8_t b, etd_tensor *out) {
    etd_route route = straight(input);
    route.sizes[a] = input->sizes[b];
    route.strides[a] = input->strides[b];
    route.sizes[b] = input->sizes[a];
    route.strides[b] = input->strides[a];
    return copy_by(input, &route, out);
}

/* transpose_copy(input, dim0, dim1, *, out) */
static const char *transpose(const etd_call *call) {
    const etd_tensor *input;
    etd_tensor *out;
    uint8_t a;
    uint8_t b;
    const char *refusal = read_tensors(call, 3, &input, &out);
    if (refusal != NULL) {
        return refusal;
    }
    if (!etd_arg_dim(call, 1, input->ndim, &a) || !etd_arg_dim(call, 2, input->ndim, &b)) {
        return "invalid dim0 or dim1";
    }
    return swap_dims(input, a, b, out);
}

/* t_copy(input, *, out): of a matrix; a vector stays as it is */
static const char *transpose_matrix(const etd_call *call) {
    const etd_tensor *input;
    etd_tensor *out;
    const char *refusal = read_tensors(call, 1, &input, &out);
    if (refusal != NULL) {
        return refusal;
    }
    if (input->ndim > 2) {
        return "supports at most two dimensions";
    }
    return swap_dims(input, 0, input->ndim == 2 ? 1 : 0, out);
}

/* unfold_copy(input, dim, size, step, *, out): windows of a dimension, each as a new last dimension */
static const char *unfold(const etd_call *call) {
    const etd_tensor *input;
    etd_tensor *out;
    uint8_t dim;
    int32_t size;
    int32_t step;
    const char *refusal = read_tensors(call, 4, &input, &out);
    if (refusal != NULL) {
        return refusal;
    }
    if (input->ndim >= ETD_MAX_DIMS || !etd_arg_dim(call, 1, input->ndim, &dim)) {
        return "invalid dim";
    }
    const int32_t length = input->sizes[dim];
    if (!etd_arg_int(call, 2, 0, length, &size) || !etd_arg_int(call, 3, 1, INT32_MAX, &step)) {
        return "invalid size or step";
    }
    const int32_t windows = (length - size) / step + 1;
    etd_route route = straight(input);
    route.sizes[dim] = windows;
    route.strides[dim] = windows > 1 ? input->strides[dim] * step : 0;
    add_dim(&route, size, input->strides[dim]);
    return copy_by(input, &route, out);
}

/* diagonal_copy(input, offset, dim1, dim2, *, out): the diagonal of two dimensions as a new last dimension */
static const char *diagonal(const etd_call *call) {
    const etd_tensor *input;
    etd_tensor *out;
    int32_t offset;
    uint8_t dims[2];
    const char *refusal = read_tensors(call, 4, &input, &out);
    if (refusal != NULL) {
        return refusal;
    }
    if (!etd_arg_int(call, 1, -INT32_MAX, INT32_MAX, &offset) ||
        !etd_arg_dim(call, 2, input->ndim, &dims[0]) || !etd_arg_dim(call, 3, input->ndim, &dims[1]) ||
        dims[0] == dims[1]) {
        return "invalid offset, dim1 or dim2";
    }
    /* The diagonal begins `offset` columns to the right, or as many rows down. */
    const int64_t rows = (int64_t)input->sizes[dims[0]] + (offset < 0 ? offset : 0);
    const int64_t columns = (int64_t)input->sizes[dims[1]] - (offset > 0 ? offset : 0);
    const int64_t shorter = rows < columns ? rows : columns;
    const int32_t length = shorter > 0 ? (int32_t)shorter : 0;
    etd_route route = {0};
    for (uint32_t d = 0; d < input->ndim; d++) {
        if (d != dims[0] && d != dims[1]) {
            add_dim(&route, input->sizes[d], input->strides[d]);
        }
    }
    add_dim(&route, length, input->strides[dims[0]] + input->strides[dims[1]]);
    if (length > 0) {
        const uint32_t skipped = (uint32_t)(offset < 0 ? -offset : offset);
        route.start = skipped * (uint32_t)input->strides[dims[offset < 0 ? 0 : 1]];
    }
    return copy_by(input, &route, out);
}

/* Reads sizes and strides (arguments 1 and 2) and storage_offset?. Returns false unless all elements lie in
 * the input. */
static bool read_storage_route(const etd_call *call, const etd_tensor *input, etd_route *route) {
    const uint32_t ndim = etd_arg_list_count(call, 1);
    int32_t start = 0;
    if (ndim > ETD_MAX_DIMS || etd_arg_list_count(call, 2) != ndim ||
        (!etd_arg_is_none(call, 3) && !etd_arg_int(call, 3, 0, INT32_MAX, &start))) {
        return false;
    }
    int64_t last = start;
    bool is_empty = false;
    for (uint32_t d = 0; d < ndim; d++) {
        int32_t size;
        int32_t stride;
        if (!etd_arg_list_int(call, 1, d, 0, INT32_MAX, &size) ||
            !etd_arg_list_int(call, 2, d, 0, INT32_MAX, &stride)) {
            return false;
        }
        last += (size > 0 ? (int64_t)size - 1 : 0) * stride;
        if (last > INT32_MAX) { /* also keeps the sum from overflowing */
            return false;
        }
        is_empty = is_empty || size == 0;
        add_dim(route, size, stride);
    }
    route->start = is_empty ? 0 : (uint32_t)start;
    return is_empty || last < (int64_t)etd_numel(input);
}

/* as_strided_copy(input, size, stride, storage_offset?, *, out): elements counted in the order of memory */
static const char *as_strided(const etd_call *call) {
    const etd_tensor *input;
    etd_tensor *out;
    etd_route route = {0};
    const char *refusal = read_tensors(call, 4, &input, &out);
    if (refusal != NULL) {
        return refusal;
    }
    return read_storage_route(call, input, &route) ? copy_by(input, &route, out)
                                                   : "invalid size, stride or storage_offset";
}

/* Moves pixels between channels, [.., C f f, H, W], and an image, [.., C, H f, W f]. */
static const char *shuffle_pixels(const etd_call *call, bool to_image) {
    const etd_tensor *input;
    etd_tensor *out;
    int32_t factor;
    int32_t sizes[ETD_MAX_DIMS];
    const char *refusal = read_tensors(call, 2, &input, &out);
    if (refusal != NULL) {
        return refusal;
    }
    if (input->ndim < 3 || input->ndim + 2u > ETD_MAX_DIMS) {
        return "supports only images";
    }
    const uint32_t batch = input->ndim - 3u;
    int32_t *image = sizes + batch;
    memcpy(sizes, input->sizes, sizeof sizes);
    if (!etd_arg_int(call, 1, 1, 1 << 10, &factor)) {
        return "invalid factor";
    }
    const int32_t area = factor * factor;
    if (to_image ? image[0] % area != 0 || image[1] > INT32_MAX / factor || image[2] > INT32_MAX / factor
                 : image[0] > INT32_MAX / area || image[1] % factor != 0 || image[2] % factor != 0) {
        return "the sizes do not fit the factor";
    }
    image[0] = to_image ? image[0] / area : image[0] * area;
    image[1] = to_image ? image[1] * factor : image[1] / factor;
    image[2] = to_image ? image[2] * factor : image[2] / factor;
    if (!etd_resize(out, sizes, input->ndim)) {
        return "invalid output size";
    }
    const etd_tensor *many = to_image ? input : out;
    const int32_t *channels = many->sizes + batch;
    const int32_t *strides = many->strides + batch;
    etd_walk pixels = {0}; /* of the tensor with many channels, in the order of the image's pixels */
    etd_walk in_order = {0};
    etd_walk_add_dims(&pixels, many, batch);
    etd_walk_add(&pixels, channels[0] / area, strides[0] * area);
    etd_walk_add(&pixels, channels[1], strides[1]);
    etd_walk_add(&pixels, factor, strides[0] * factor);
    etd_walk_add(&pixels, channels[2], strides[2]);
    etd_walk_add(&pixels, factor, strides[0]);
    etd_walk_add_dims(&in_order, to_image ? out : input, input->ndim);
    etd_copy_along(input, to_image ? &pixels : &in_order, out, to_image ? &in_order : &pixels);
    return NULL;
}

/* pixel_shuffle(input, upscale_factor, *, out) */
static const char *pixel_shuffle(const etd_call *call) {
    return shuffle_pixels(call, true);
}

/* pixel_unshuffle(input, downscale_factor, *, out) */
static const char *pixel_unshuffle(const etd_call *call) {
    return shuffle_pixels(call, false);
}

/* A block of elements, with offsets in input and output. */
typedef struct {
    uint32_t from;
    uint32_t to;
    int32_t sizes[ETD_MAX_DIMS];
} etd_block;

static void copy_block(const etd_tensor *input, etd_tensor *out, const etd_block *block) {
    const uint32_t added = (uint32_t)out->ndim - input->ndim;
    etd_walk from = {.offset = block->from};
    etd_walk to = {.offset = block->to};
    for (uint32_t d = 0; d < input->ndim; d++) {
        etd_walk_add(&from, block->sizes[d], input->strides[d]);
        etd_walk_add(&to, block->sizes[d], out->strides[d + added]);
    }
    etd_copy_along(input, &from, out, &to);
}

/* repeat(input, repeats, *, out): the input again and again along each dimension */
static const char *repeat(const etd_call *call) {
    const etd_tensor *input;
    etd_tensor *out;
    const uint32_t ndim = etd_arg_list_count(call, 1);
    int32_t repeats[ETD_MAX_DIMS];
    int32_t sizes[ETD_MAX_DIMS];
    const char *refusal = read_tensors(call, 2, &input, &out);
    if (refusal != NULL) {
        return refusal;
    }
    if (ndim > ETD_MAX_DIMS || ndim < input->ndim) {
        return "invalid repeats";
    }
    for (uint32_t d = 0; d < ndim; d++) {
        const int32_t size = d < ndim - input->ndim ? 1 : input->sizes[d + input->ndim - ndim];
        if (!etd_arg_list_int(call, 1, d, 0, size > 0 ? INT32_MAX / size : INT32_MAX, &repeats[d])) {
            return "invalid repeats";
        }
        sizes[d] = size * repeats[d];
    }
    if (!etd_resize(out, sizes, ndim)) {
        return "invalid output size";
    }
    if (out->nbytes == 0) {
        return NULL;
    }
    etd_block block = {0};
    etd_walk places = {0}; /* offsets of the copies */
    uint32_t copies = 1;
    memcpy(block.sizes, input->sizes, sizeof block.sizes);
    for (uint32_t d = 0; d < ndim; d++) {
        etd_walk_add(&places, repeats[d], sizes[d] / repeats[d] * out->strides[d]);
        copies *= (uint32_t)repeats[d];
    }
    for (; copies > 0; copies--) {
        block.to = places.offset;
        copy_block(input, out, &block);
        etd_walk_next(&places);
    }
    return NULL;
}

/* Reads the shift of each dimension, reduced to 0 .. size - 1. */
static bool read_shifts(const etd_call *call, const etd_tensor *input, int32_t shifts[ETD_MAX_DIMS]) {
    uint8_t dims[ETD_MAX_DIMS];
    uint8_t count;
    if (!etd_arg_dims(call, 2, input->ndim, dims, &count) || etd_arg_list_count(call, 1) != count) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const int32_t size = input->sizes[dims[i]];
        int32_t shift;
        if (!etd_arg_list_int(call, 1, i, -INT32_MAX, INT32_MAX, &shift)) {
            return false;
        }
        shifts[dims[i]] = size == 0 ? 0 : (shift % size + size) % size;
    }
    return true;
}

/* roll(input, shifts, dims, *, out). A shift splits a dimension into two parts, so 2^n blocks are copied. */
static const char *roll(const etd_call *call) {
    const etd_tensor *input;
    etd_tensor *out;
    int32_t shifts[ETD_MAX_DIMS] = {0};
    const char *refusal = read_tensors(call, 3, &input, &out);
    if (refusal != NULL) {
        return refusal;
    }
    if (etd_arg_list_count(call, 2) == 0) {
        return "supports only with dims";
    }
    if (!read_shifts(call, input, shifts)) {
        return "invalid shifts or dims";
    }
    if (!etd_resize_like(out, input)) {
        return "invalid output size";
    }
    for (uint32_t parts = 0; parts < 1u << input->ndim; parts++) {
        etd_block block = {0};
        for (uint32_t d = 0; d < input->ndim; d++) {
            const bool returns = (parts & (1u << d)) != 0;
            const int32_t stays = input->sizes[d] - shifts[d];
            block.sizes[d] = returns ? shifts[d] : stays;
            block.from += (uint32_t)(returns ? stays : 0) * (uint32_t)input->strides[d];
            block.to += (uint32_t)(returns ? 0 : shifts[d]) * (uint32_t)out->strides[d];
        }
        copy_block(input, out, &block);
    }
    return NULL;
}

/* Copies one side of a diagonal of each matrix; the other elements become zero. */
static const char *triangle(const etd_call *call, bool lower) {
    const etd_tensor *input;
    etd_tensor *out;
    int64_t diagonal;
    const char *refusal = read_tensors(call, 2, &input, &out);
    if (refusal != NULL) {
        return refusal;
    }
    if (input->ndim < 2 || !etd_arg_int64(call, 1, &diagonal) || diagonal < -INT32_MAX ||
        diagonal > INT32_MAX) {
        return "invalid diagonal, or fewer than two dimensions";
    }
    if (!etd_resize_like(out, input)) {
        return "invalid output size";
    }
    const uint32_t size = etd_element_size(input->dtype);
    const int32_t rows = input->sizes[input->ndim - 2];
    const int32_t columns = input->sizes[input->ndim - 1];
    etd_walk from = {0};
    etd_walk to = {0};
    etd_walk_add_dims(&from, input, input->ndim);
    etd_walk_add_dims(&to, out, out->ndim);
    for (uint32_t left = etd_numel(input), i = 0; left > 0; left--, i++) {
        const int64_t column = (int64_t)(i % (uint32_t)columns);
        const int64_t above = column - (int64_t)(i / (uint32_t)columns % (uint32_t)rows);
        if (lower ? above <= diagonal : above >= diagonal) {
            memmove(out->data + to.offset * size, input->data + from.offset * size, size);
        } else {
            memset(out->data + to.offset * size, 0, size);
        }
        etd_walk_next(&from);
        etd_walk_next(&to);
    }
    return NULL;
}

/* tril(input, diagonal, *, out) */
static const char *tril(const etd_call *call) {
    return triangle(call, true);
}

/* triu(input, diagonal, *, out) */
static const char *triu(const etd_call *call) {
    return triangle(call, false);
}

ETD_ATEN_KERNEL(as_strided, "as_strided_copy", "out", 5, as_strided)
ETD_ATEN_KERNEL(diagonal, "diagonal_copy", "out", 5, diagonal)
ETD_ATEN_KERNEL(flip, "flip", "out", 3, flip)
ETD_ATEN_KERNEL(pixel_shuffle, "pixel_shuffle", "out", 3, pixel_shuffle)
ETD_ATEN_KERNEL(pixel_unshuffle, "pixel_unshuffle", "out", 3, pixel_unshuffle)
ETD_ATEN_KERNEL(repeat, "repeat", "out", 3, repeat)
ETD_ATEN_KERNEL(roll, "roll", "out", 4, roll)
ETD_ATEN_KERNEL(t_copy, "t_copy", "out", 2, transpose_matrix)
ETD_ATEN_KERNEL(transpose, "transpose_copy", "int_out", 4, transpose)
ETD_ATEN_KERNEL(tril, "tril", "out", 3, tril)
ETD_ATEN_KERNEL(triu, "triu", "out", 3, triu)
ETD_ATEN_KERNEL(unfold, "unfold_copy", "out", 5, unfold)
