// SPDX-License-Identifier: Apache-2.0
#include "float_products.h"

#include <stdbool.h>
#include <stddef.h>

#include "cpu.h"

/* Vectors of `b` that are computed together, and of `a` if there is more than one. */
#define MANY 8
#define FEW 4
#define MOST (FEW * FEW)

/* What a loop over a group is specialized for. */
typedef enum {
    ANY_STEPS,
    DENSE,   /* the elements of each vector are adjacent in the innermost loop */
    ADJACENT /* the vectors of `b` are adjacent: element by element beside each other */
} etd_group_kind;

void etd_set_sum_loops(etd_float_products *products, const etd_sum_loop loops[ETD_SUM_LOOPS]) {
    uint32_t at = ETD_SUM_LOOPS; /* filled from the end */
    for (uint32_t i = ETD_SUM_LOOPS; i-- > 0;) {
        etd_sum_loop *inner = &products->loops[at < ETD_SUM_LOOPS ? at : ETD_SUM_LOOPS - 1];
        const bool continues = at < ETD_SUM_LOOPS &&
                               loops[i].a_step == etd_scale_step(inner->count, inner->a_step) &&
                               loops[i].b_step == etd_scale_step(inner->count, inner->b_step);
        if (continues) {
            inner->count *= loops[i].count;
        } else if (loops[i].count != 1) {
            products->loops[--at] = loops[i];
        }
    }
    while (at > 0) {
        products->loops[--at] = (etd_sum_loop){1, 0, 0};
    }
}

/* Adds the products of the innermost loop. Counts and kind are constants where this is inlined, so sums stay
 * in registers. */
static ETD_INLINE void add_products(const float *a[], int a_count, const float *b[], int b_count,
                                    const etd_sum_loop *loop, etd_group_kind kind, float sums[]) {
    const int32_t a_step = kind == DENSE ? 1 : loop->a_step;
    const int32_t b_step = kind == DENSE ? 1 : loop->b_step;
    for (int32_t left = loop->count; left > 0; left--) {
        float numbers[MANY];
        for (int j = 0; j < b_count; j++) {
            numbers[j] = kind == ADJACENT ? b[0][j] : *b[j];
        }
        for (int j = 0; j < b_count; j++) {
            b[j] += b_step;
        }
        for (int i = 0; i < a_count; i++) {
            const float factor = *a[i];
            a[i] += a_step;
            for (int j = 0; j < b_count; j++) {
                sums[i * b_count + j] += factor * numbers[j];
            }
        }
    }
}

/* Computes the sums of `a_count` vectors, `a_distance` apart, with `b_count` others. */
static ETD_INLINE void compute_sums(const etd_sum_loop *loops, const float *a_first, int32_t a_distance,
                                    int a_count, const float *const vectors[], int b_count,
                                    etd_group_kind kind, float out[]) {
    float sums[MOST] = {0};
    int32_t a_outer = 0;
    int32_t b_outer = 0;
    for (int32_t outer = loops[0].count; outer > 0; outer--) {
        int32_t a_middle = a_outer;
        int32_t b_middle = b_outer;
        for (int32_t middle = loops[1].count; middle > 0; middle--) {
            const float *a[FEW];
            const float *b[MANY];
            for (int i = 0; i < a_count; i++) {
                a[i] = a_first + i * a_distance + a_middle;
            }
            for (int j = 0; j < b_count; j++) {
                b[j] = vectors[j] + b_middle;
            }
            add_products(a, a_count, b, b_count, &loops[2], kind, sums);
            a_middle += loops[1].a_step;
            b_middle += loops[1].b_step;
        }
        a_outer += loops[0].a_step;
        b_outer += loops[0].b_step;
    }
    for (int i = 0; i < a_count * b_count; i++) {
        out[i] = sums[i];
    }
}

/* Each of these is a function of its own, so that its loops have all registers of a small CPU. */
#define DEFINE_SUMS(name, a_count, b_count, kind)                                                            \
    static ETD_NOINLINE void name(const etd_sum_loop *loops, const float *a, int32_t a_distance,             \
                                  const float *const vectors[], float out[]) {                               \
        compute_sums(loops, a, a_distance, a_count, vectors, b_count, kind, out);                            \
    }

DEFINE_SUMS(sum_one, 1, 1, ANY_STEPS)
DEFINE_SUMS(sum_row_of_few, 1, FEW, ANY_STEPS)
DEFINE_SUMS(sum_row, 1, MANY, ANY_STEPS)
DEFINE_SUMS(sum_dense_row, 1, MANY, DENSE)
DEFINE_SUMS(sum_adjacent_row, 1, MANY, ADJACENT)
DEFINE_SUMS(sum_block, FEW, FEW, ANY_STEPS)
DEFINE_SUMS(sum_adjacent_block, FEW, FEW, ADJACENT)

/* Some vectors of `b`, the places of their outputs, and of what is added to these. */
typedef struct {
    const float *vectors[MANY];
    int32_t outs[MANY];
    int32_t added[MANY];
    int32_t count;
} etd_group;

/* Moves along the vectors of `b`. */
typedef struct {
    const float *vector;
    int32_t out;
    int32_t added;
    int32_t column;
} etd_cursor;

static void move_by(etd_cursor *cursor, const etd_float_row *row, int32_t count) {
    cursor->vector += count * row->step;
    cursor->out += count * row->out_step;
    cursor->added += count * row->added_step;
}

/* Fills the group with the next `count` vectors. Missing ones, up to a full group, repeat the last one: they
 * are computed, but not stored. */
static void fill_group(const etd_float_products *products, etd_cursor *cursor, int32_t count,
                       etd_group *group) {
    group->count = count;
    for (int32_t i = 0; i < count; i++) {
        group->vectors[i] = cursor->vector;
        group->outs[i] = cursor->out;
        group->added[i] = cursor->added;
        move_by(cursor, &products->b_columns, 1);
        if (++cursor->column == products->b_columns.count) {
            cursor->column = 0;
            move_by(cursor, &products->b_columns, -products->b_columns.count);
            move_by(cursor, &products->b_rows, 1);
        }
    }
    for (int32_t i = count; i < MANY; i++) {
        group->vectors[i] = group->vectors[count - 1];
    }
}

/* Returns true if `count` vectors from `first` on begin at adjacent elements. */
static bool is_adjacent(const etd_group *group, int32_t first, int32_t count) {
    for (int32_t i = first; i < first + count; i++) {
        if (i >= group->count || group->vectors[i] != group->vectors[first] + (i - first)) {
            return false;
        }
    }
    return true;
}

/* Stores the sums of one vector of `a` with vectors of the group, from `first` on. */
static void store(const etd_float_products *products, int32_t row, const etd_group *group, int32_t first,
                  int32_t count, const float *sums) {
    float *out = products->out + row * products->a_row.out_step;
    const int32_t *outs = group->outs + first;
    if (products->added == NULL) {
        for (int32_t i = 0; i < count; i++) {
            out[outs[i]] = sums[i];
        }
        return;
    }
    const float *added = products->added + row * products->a_row.added_step;
    for (int32_t i = 0; i < count; i++) {
        out[outs[i]] = products->alpha * sums[i] + products->beta * added[group->added[first + i]];
    }
}

static bool is_dense(const etd_sum_loop *loop) {
    return loop->a_step == 1 && loop->b_step == 1;
}

/* Multiplies one vector of `a` with a group. */
static void multiply_row(const etd_float_products *products, int32_t row, const etd_group *group) {
    const etd_float_row *a_row = &products->a_row;
    const float *a = products->a + row * a_row->step;
    const etd_sum_loop *loops = products->loops;
    float sums[MANY];
    if (group->count == 1) {
        sum_one(loops, a, 0, group->vectors, sums);
    } else if (group->count <= FEW) {
        sum_row_of_few(loops, a, 0, group->vectors, sums);
    } else if (is_adjacent(group, 0, MANY)) {
        sum_adjacent_row(loops, a, 0, group->vectors, sums);
    } else if (is_dense(&loops[2])) {
        sum_dense_row(loops, a, 0, group->vectors, sums);
    } else {
        sum_row(loops, a, 0, group->vectors, sums);
    }
    store(products, row, group, 0, group->count, sums);
}

/* Multiplies four vectors of `a` with some of a group, at most FEW. */
static void multiply_block(const etd_float_products *products, int32_t row, const etd_group *group,
                           int32_t first) {
    const etd_float_row *a_row = &products->a_row;
    const float *a = products->a + row * a_row->step;
    const int32_t count = group->count - first < FEW ? group->count - first : FEW;
    float sums[FEW * FEW];
    if (is_adjacent(group, first, FEW)) {
        sum_adjacent_block(products->loops, a, a_row->step, group->vectors + first, sums);
    } else {
        sum_block(products->loops, a, a_row->step, group->vectors + first, sums);
    }
    for (int32_t i = 0; i < FEW; i++) {
        store(products, row + i, group, first, count, sums + i * FEW);
    }
}

static void multiply_group(const etd_float_products *products, const etd_group *group) {
    int32_t row = 0;
    for (; row + FEW <= products->a_row.count; row += FEW) {
        for (int32_t first = 0; first < group->count; first += FEW) {
            multiply_block(products, row, group, first);
        }
    }
    for (; row < products->a_row.count; row++) {
        multiply_row(products, row, group);
    }
}

/* Returns the products with a single vector of `b`, as those of a single vector of `a`. */
static etd_float_products exchange(const etd_float_products *products, const etd_cursor *cursor) {
    etd_float_products exchanged = *products;
    exchanged.a = cursor->vector;
    exchanged.b = products->a;
    exchanged.out += cursor->out;
    if (exchanged.added != NULL) {
        exchanged.added += cursor->added;
    }
    exchanged.a_row = (etd_float_row){1, 0, 0, 0};
    exchanged.b_rows = (etd_float_row){1, 0, 0, 0};
    exchanged.b_columns = products->a_row;
    for (uint32_t i = 0; i < ETD_SUM_LOOPS; i++) {
        exchanged.loops[i].a_step = products->loops[i].b_step;
        exchanged.loops[i].b_step = products->loops[i].a_step;
    }
    return exchanged;
}

/* Returns how many of the vectors of `b` that are left make a good group. */
static int32_t group_size(const etd_float_products *products, int32_t left) {
    if (left >= MANY) {
        return MANY;
    }
    return left == FEW + 1 && products->a_row.count > 1 ? FEW : left;
}

void etd_compute_products(const etd_float_products *products) {
    etd_cursor cursor = {products->b, 0, 0, 0};
    etd_group group;
    int32_t left = products->b_rows.count * products->b_columns.count;
    while (left > 0) {
        const int32_t count = group_size(products, left);
        if (count == 1 && products->a_row.count > 1) {
            const etd_float_products exchanged = exchange(products, &cursor);
            etd_compute_products(&exchanged);
            return; /* it was the last one */
        }
        fill_group(products, &cursor, count, &group);
        multiply_group(products, &group);
        left -= count;
    }
}
