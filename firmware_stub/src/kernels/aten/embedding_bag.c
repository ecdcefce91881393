// SPDX-License-Identifier: Apache-2.0
/* Sums, means and maxima of the rows of a table: a bag of indexes gives one row. */
#include <string.h>

#include "../kernels.h"
#include "../support/number.h"

/* As PyTorch numbers them. */
enum { SUM, MEAN, MAX };

typedef struct {
    const etd_tensor *table;
    const etd_tensor *indices;
    const etd_tensor *offsets; /* of the first index of each bag */
    const etd_tensor *weights; /* of each index, or NULL */
    etd_tensor *out;
    int32_t mode;
    int32_t bags;
    int32_t padding; /* an index that counts for nothing; -1: none */
} etd_bags;

static uint32_t first_of(const etd_bags *bags, int32_t bag) {
    const int32_t count = (int32_t)etd_numel(bags->indices);
    return bag < (int32_t)etd_numel(bags->offsets) ? etd_load_index(bags->offsets, (uint32_t)bag, count + 1)
                                                   : (uint32_t)count;
}

/* Adds one row of the table to a bag's row; `count` rows are in it already. */
static void add_row(const etd_bags *bags, uint32_t i, int32_t count, float *sum) {
    const int32_t width = bags->table->sizes[1];
    const float *row =
        etd_floats(bags->table) + (int32_t)etd_load_index(bags->indices, i, bags->table->sizes[0]) * width;
    const float weight = bags->weights != NULL ? etd_floats(bags->weights)[i] : 1.0f;
    for (int32_t column = 0; column < width; column++) {
        if (bags->mode != MAX) {
            sum[column] += weight * row[column];
        } else if (count == 0 || row[column] > sum[column]) {
            sum[column] = row[column];
        }
    }
}

static void fill_bag(const etd_bags *bags, int32_t bag) {
    const int32_t width = bags->table->sizes[1];
    float *sum = etd_out_floats(bags->out) + bag * width;
    int32_t count = 0;
    for (uint32_t i = first_of(bags, bag); i < first_of(bags, bag + 1); i++) {
        if (etd_load_number(bags->indices, i).integer != bags->padding) {
            add_row(bags, i, count++, sum);
        }
    }
    for (int32_t column = 0; bags->mode == MEAN && count > 0 && column < width; column++) {
        sum[column] /= (float)count;
    }
}

/* Reads the offsets; with include_last_offset the last one is the end of the last bag. */
static bool read_offsets(const etd_call *call, etd_bags *bags) {
    bool ends;
    bags->offsets = etd_arg_tensor(call, 2);
    if (!etd_arg_bool(call, 7, &ends) || !etd_is_index(bags->offsets) || bags->offsets->ndim != 1) {
        return false;
    }
    bags->bags = bags->offsets->sizes[0] - ends;
    for (int32_t bag = 1; bag < bags->offsets->sizes[0]; bag++) {
        if (first_of(bags, bag - 1) > first_of(bags, bag)) {
            return false;
        }
    }
    return bags->bags >= 0 && etd_are_within(bags->offsets, 0, (int64_t)etd_numel(bags->indices) + 1);
}

static const char *read_arguments(const etd_call *call, etd_bags *bags) {
    bags->table = etd_arg_tensor(call, 0);
    bags->indices = etd_arg_tensor(call, 1);
    bags->weights = etd_arg_is_none(call, 6) ? NULL : etd_arg_tensor(call, 6);
    bags->out = etd_arg_out(call, 9);
    if (!etd_is_type(bags->table, ETD_FLOAT) || bags->table->ndim != 2 ||
        !etd_is_type(bags->out, ETD_FLOAT)) {
        return "supports only a matrix of float32";
    }
    if (!etd_is_index(bags->indices) || bags->indices->ndim != 1) {
        return "supports only a vector of int32 or int64 indices";
    }
    if (!etd_arg_int(call, 4, SUM, MAX, &bags->mode) ||
        !etd_arg_int(call, 8, INT32_MIN, INT32_MAX, &bags->padding) || !read_offsets(call, bags)) {
        return "invalid mode, padding_idx or offsets";
    }
    if (!etd_arg_is_none(call, 6) &&
        (bags->mode != SUM || !etd_has_elements(bags->weights, ETD_FLOAT, bags->indices->sizes[0]))) {
        return "invalid per_sample_weights";
    }
    const int32_t sizes[2] = {bags->bags, bags->table->sizes[1]};
    if (!etd_resize(bags->out, sizes, 2) || !etd_is_contiguous(bags->out) ||
        !etd_is_contiguous(bags->table)) {
        return "invalid output size or layout";
    }
    for (uint32_t i = 10; i < 13; i++) {
        if (etd_arg_out(call, i) == NULL) {
            return "invalid output";
        }
    }
    return etd_are_within(bags->indices, 0, bags->table->sizes[0]) ? NULL : "index out of range";
}

/* Fills the outputs for training with zeros; those of dynamic size get PyTorch's. */
static void clear_unused(const etd_call *call, const etd_bags *bags) {
    for (uint32_t i = 10; i < 13; i++) {
        etd_tensor *unused = etd_arg_out(call, i);
        const int32_t sizes[2] = {i == 10 ? bags->indices->sizes[0] : bags->bags, bags->table->sizes[1]};
        (void)etd_resize(unused, sizes, unused->ndim < 2 ? unused->ndim : 2);
        memset(unused->data, 0, unused->nbytes);
    }
}

/* _embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights?,
 * include_last_offset, padding_idx, *, out, offset2bag, bag_size, max_indices). The last three outputs are
 * for training, and PyTorch's own kernels differ in them: they are filled with zeros. */
static const char *embedding_bag(const etd_call *call) {
    etd_bags bags;
    const char *refusal = read_arguments(call, &bags);
    if (refusal != NULL) {
        return refusal;
    }
    clear_unused(call, &bags);
    memset(bags.out->data, 0, bags.out->nbytes);
    for (int32_t bag = 0; bag < bags.bags; bag++) {
        fill_bag(&bags, bag);
    }
    return NULL;
}

ETD_ATEN_KERNEL(embedding_bag, "_embedding_bag", "out", ETD_IN_FLOAT32 + 13, embedding_bag)
ETD_ATEN_KERNEL(embedding_bag_forward_only, "_embedding_bag_forward_only", "out", ETD_IN_FLOAT32 + 13,
                embedding_bag)
