// SPDX-License-Identifier: Apache-2.0
/* Order of elements: argmax and argmin, sort and topk. */
#include <math.h>
#include <string.h>

#include "../kernels.h"
#include "../support/number.h"
#include "../support/reduce.h"
#include "../support/walk.h"

/* Returns true if a is larger than b. NaN is larger than all numbers. */
static bool is_larger(etd_number a, etd_number b) {
    if (!a.is_real) {
        return a.integer > b.integer;
    }
    return a.real > b.real || (isnan(a.real) && !isnan(b.real));
}

static bool is_smaller(etd_number a, etd_number b) {
    return is_larger(b, a);
}

/* Returns true if a comes before b. */
typedef bool (*etd_prefer_fn)(etd_number a, etd_number b);

/* Finds the first largest or smallest element of each reduction: its index within the reduction, and its
 * value unless `values` is NULL. */
static const char *find(etd_reduction *reduction, etd_tensor *values, etd_tensor *indices, bool is_largest) {
    const etd_tensor *input = reduction->input;
    const uint32_t size = etd_element_size(input->dtype);
    int64_t *index = (int64_t *)(void *)indices->data;
    etd_walk to_index = {0};
    etd_walk to_value = {0};
    if (!etd_plan_reduction(reduction, indices) || (values != NULL && !etd_resize_like(values, indices))) {
        return "invalid output size";
    }
    if (reduction->count == 0 && indices->nbytes != 0) {
        return "empty input";
    }
    etd_walk_add_dims(&to_index, indices, indices->ndim);
    if (values != NULL) {
        etd_walk_add_dims(&to_value, values, values->ndim);
    }
    for (uint32_t left = etd_numel(indices); left > 0; left--) {
        const etd_extreme extreme = etd_find_extreme(reduction, is_largest);
        index[to_index.offset] = extreme.index;
        if (values != NULL) {
            memmove(values->data + to_value.offset * size, input->data + extreme.place * size, size);
            etd_walk_next(&to_value);
        }
        etd_walk_next(&reduction->from);
        etd_walk_next(&to_index);
    }
    return NULL;
}

/* (input, dim, keepdim, *, [values,] indices). With values, dim is required. */
static const char *run_find(const etd_call *call, bool with_values, bool is_largest) {
    etd_reduction reduction = {.input = etd_arg_tensor(call, 0)};
    etd_tensor *values = with_values ? etd_arg_out(call, 3) : NULL;
    etd_tensor *indices = etd_arg_out(call, with_values ? 4 : 3);
    if (!etd_is_numeric(reduction.input) || !etd_is_type(indices, ETD_LONG) ||
        (with_values && !etd_is_type(values, reduction.input->dtype))) {
        return "invalid type";
    }
    if (etd_arg_list_count(call, 1) != UINT32_MAX || (with_values && etd_arg_is_none(call, 1)) ||
        !etd_arg_reduced(call, 1, &reduction) || !etd_arg_bool(call, 2, &reduction.keepdim)) {
        return "invalid dim or keepdim";
    }
    return find(&reduction, values, indices, is_largest);
}

/* argmax(input, dim?, keepdim, *, out) */
static const char *argmax(const etd_call *call) {
    return run_find(call, false, true);
}

/* argmin(input, dim?, keepdim, *, out) */
static const char *argmin(const etd_call *call) {
    return run_find(call, false, false);
}

/* max.dim_max(input, dim, keepdim, *, max, max_values): max_values are the indices */
static const char *max_of_dim(const etd_call *call) {
    return run_find(call, true, true);
}

/* min.dim_min(input, dim, keepdim, *, min, min_indices) */
static const char *min_of_dim(const etd_call *call) {
    return run_find(call, true, false);
}

/* One line of the input and its outputs. Sorting uses the output for indices as its only memory. */
typedef struct {
    const etd_tensor *input;
    etd_tensor *values;
    int64_t *indices; /* `kept` indices, `index_step` apart */
    uint32_t start;   /* offset of the line in the input */
    uint32_t value_start;
    uint32_t step;
    uint32_t value_step;
    uint32_t index_step;
    uint32_t length;
    uint32_t kept;
    etd_prefer_fn prefers;
} etd_ranking;

/* Returns the element at an index. In a corrupt file the outputs can overlap, so the index may be invalid. */
static etd_number element(const etd_ranking *ranking, int64_t index) {
    const bool is_valid = index >= 0 && index < ranking->length;
    const uint32_t place = is_valid ? (uint32_t)index : 0u;
    return etd_load_number(ranking->input, ranking->start + place * ranking->step);
}

static int64_t *kept_at(const etd_ranking *ranking, uint32_t i) {
    return &ranking->indices[i * ranking->index_step];
}

/* Returns true if element a comes before element b. Equal elements keep their order. */
static bool comes_before(const etd_ranking *ranking, int64_t a, int64_t b) {
    const etd_number first = element(ranking, a);
    const etd_number second = element(ranking, b);
    return ranking->prefers(first, second) || (a < b && !ranking->prefers(second, first));
}

/* Moves an index down in a heap of `count` indices. Each comes after its children. */
static void sift_down(const etd_ranking *ranking, uint32_t at, uint32_t count) {
    const int64_t moved = *kept_at(ranking, at);
    for (uint32_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count &&
            comes_before(ranking, *kept_at(ranking, child), *kept_at(ranking, child + 1))) {
            child++;
        }
        if (!comes_before(ranking, moved, *kept_at(ranking, child))) {
            break;
        }
        *kept_at(ranking, at) = *kept_at(ranking, child);
        at = child;
    }
    *kept_at(ranking, at) = moved;
}

/* Selects the first elements in a heap whose root is the last of them, then sorts the heap. */
static void rank_line(const etd_ranking *ranking) {
    if (ranking->kept == 0) {
        return;
    }
    for (uint32_t i = 0; i < ranking->kept; i++) {
        *kept_at(ranking, i) = i;
    }
    for (uint32_t i = ranking->kept / 2; i-- > 0;) {
        sift_down(ranking, i, ranking->kept);
    }
    for (uint32_t i = ranking->kept; i < ranking->length; i++) {
        if (comes_before(ranking, i, *kept_at(ranking, 0))) {
            *kept_at(ranking, 0) = i;
            sift_down(ranking, 0, ranking->kept);
        }
    }
    for (uint32_t i = ranking->kept; i-- > 1;) {
        const int64_t last = *kept_at(ranking, 0);
        *kept_at(ranking, 0) = *kept_at(ranking, i);
        *kept_at(ranking, i) = last;
        sift_down(ranking, 0, i);
    }
    for (uint32_t i = 0; i < ranking->kept; i++) {
        etd_store_number(ranking->values, ranking->value_start + i * ranking->value_step,
                         element(ranking, *kept_at(ranking, i)));
    }
}

static const char *run_ranking(const etd_call *call, uint32_t dim_at, uint32_t out_at, bool whole,
                               int32_t kept, bool descending) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *values = etd_arg_out(call, out_at);
    etd_tensor *indices = etd_arg_out(call, out_at + 1);
    uint8_t dim;
    if (!etd_is_numeric(input) || !etd_is_type(values, input->dtype) || !etd_is_type(indices, ETD_LONG)) {
        return "invalid type of the tensors";
    }
    if (!etd_arg_dim(call, dim_at, input->ndim, &dim)) {
        return "invalid dim";
    }
    etd_tensor wanted = *input; /* for its sizes */
    wanted.sizes[dim] = whole ? input->sizes[dim] : kept;
    if (wanted.sizes[dim] > input->sizes[dim] || !etd_resize_like(values, &wanted) ||
        !etd_resize_like(indices, &wanted)) {
        return "invalid output size or k";
    }
    etd_ranking ranking = {.input = input, .values = values};
    ranking.step = (uint32_t)input->strides[dim];
    ranking.value_step = (uint32_t)values->strides[dim];
    ranking.index_step = (uint32_t)indices->strides[dim];
    ranking.length = (uint32_t)input->sizes[dim];
    ranking.kept = (uint32_t)wanted.sizes[dim];
    ranking.prefers = descending ? is_larger : is_smaller;
    etd_walk from = {0};
    etd_walk to_value = {0};
    etd_walk to_index = {0};
    for (uint32_t d = 0; d < input->ndim; d++) {
        const int32_t size = d == dim ? 1 : input->sizes[d];
        etd_walk_add(&from, size, input->strides[d]);
        etd_walk_add(&to_value, size, values->strides[d]);
        etd_walk_add(&to_index, size, indices->strides[d]);
    }
    for (uint32_t lines = ranking.length == 0 ? 0 : etd_numel(input) / ranking.length; lines > 0; lines--) {
        ranking.start = from.offset;
        ranking.value_start = to_value.offset;
        ranking.indices = (int64_t *)(void *)indices->data + to_index.offset;
        rank_line(&ranking);
        etd_walk_next(&from);
        etd_walk_next(&to_value);
        etd_walk_next(&to_index);
    }
    return NULL;
}

/* topk(input, k, dim, largest, sorted, *, values, indices): always sorted */
static const char *topk(const etd_call *call) {
    int32_t k;
    bool largest;
    bool sorted;
    if (!etd_arg_int(call, 1, 0, INT32_MAX, &k) || !etd_arg_bool(call, 3, &largest) ||
        !etd_arg_bool(call, 4, &sorted)) {
        return "invalid k, largest or sorted";
    }
    return run_ranking(call, 2, 5, false, k, largest);
}

/* sort(input, dim, descending, *, values, indices) */
static const char *sort(const etd_call *call) {
    bool descending;
    return etd_arg_bool(call, 2, &descending) ? run_ranking(call, 1, 3, true, 0, descending)
                                              : "invalid descending";
}

/* sort(input, *, stable?, dim, descending, values, indices): always stable */
static const char *sort_stable(const etd_call *call) {
    bool descending;
    bool stable;
    if (!etd_arg_bool(call, 3, &descending) ||
        (!etd_arg_is_none(call, 1) && !etd_arg_bool(call, 1, &stable))) {
        return "invalid descending or stable";
    }
    return run_ranking(call, 2, 4, true, 0, descending);
}

ETD_ATEN_KERNEL(argmax, "argmax", "out", 4, argmax)
ETD_ATEN_KERNEL(argmin, "argmin", "out", 4, argmin)
ETD_ATEN_KERNEL(max_of_dim, "max", "dim_max", 5, max_of_dim)
ETD_ATEN_KERNEL(min_of_dim, "min", "dim_min", 5, min_of_dim)
ETD_ATEN_KERNEL(sort, "sort", "values", 5, sort)
ETD_ATEN_KERNEL(sort_stable, "sort", "values_stable", 6, sort_stable)
ETD_ATEN_KERNEL(topk, "topk", "values", 7, topk)
