// SPDX-License-Identifier: Apache-2.0
#include "float_products.h"

#include <stdbool.h>
#include <stddef.h>

#include "cpu.h"

/* Vectors of `b` that are computed together, and of `a` if there is more than one. */
#define MANY 8
#define FEW 4
#define MOST (FEW * FEW)

/* What a loop over a group is specialized for. In all but the first kind the elements of the vectors of `a`
 * are adjacent in the innermost loop. */
typedef enum {
    ANY_STEPS,
    ADJACENT, /* the vectors of `b` are adjacent: element by element beside each other */
    DENSE,    /* the elements of the vectors of `b` are adjacent in the innermost loop */
    PAIRED    /* as DENSE; each vector of `b` has one of `a` of its own */
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

/* The loops over the vectors of a group are written out by the compiler, so that their sums stay in
 * registers. Counts and kind are constants where these functions are inlined. */
#define WRITE_OUT _Pragma("GCC unroll 16")

/* Adds the products of the innermost loop. */
static ETD_INLINE void add_products(const float *a[], int a_count, const float *b[], int b_count,
                                    const etd_sum_loop *loop, etd_group_kind kind, float sums[]) {
    const int32_t a_step = kind == ANY_STEPS ? loop->a_step : 1;
    const int32_t b_step = kind == ANY_STEPS || kind == ADJACENT ? loop->b_step : 1;
    for (int32_t left = loop->count; left > 0; left--) {
        float numbers[MANY];
        WRITE_OUT for (int j = 0; j < b_count; j++) {
            numbers[j] = kind == ADJACENT ? b[0][j] : *b[j];
        }
        WRITE_OUT for (int j = 0; j < b_count; j++) {
            b[j] += b_step;
        }
        WRITE_OUT for (int i = 0; i < a_count; i++) {
            const float factor = *a[i];
            a[i] += a_step;
            if (kind == PAIRED) {
                /* As many at a as at b. NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
                sums[i] += factor * numbers[i];
                continue;
            }
            WRITE_OUT for (int j = 0; j < b_count; j++) {
                sums[i * b_count + j] += factor * numbers[j];
            }
        }
    }
}

/* Computes the sums of `a_count` vectors, `a_distance` apart, with those at `b_count` places. */
static ETD_INLINE void compute_sums(const etd_sum_loop *loops, const float *a_first, int32_t a_distance,
                                    int a_count, const float *b_first, const int32_t places[], int b_count,
                                    etd_group_kind kind, float out[]) {
    const int count = kind == PAIRED ? a_count : a_count * b_count;
    float sums[MOST];
    WRITE_OUT for (int i = 0; i < count; i++) {
        sums[i] = 0.0f;
    }
    for (int32_t outer = loops[0].count; outer > 0; outer--) {
        const float *a_middle = a_first;
        const float *b_middle = b_first;
        for (int32_t middle = loops[1].count; middle > 0; middle--) {
            const float *a[FEW];
            const float *b[MANY];
            WRITE_OUT for (int i = 0; i < a_count; i++) {
                a[i] = a_middle + i * a_distance;
            }
            WRITE_OUT for (int j = 0; j < b_count; j++) {
                b[j] = b_middle + places[j];
            }
            add_products(a, a_count, b, b_count, &loops[ETD_SUM_LOOPS - 1], kind, sums);
            a_middle += loops[1].a_step;
            b_middle += loops[1].b_step;
        }
        a_first += loops[0].a_step;
        b_first += loops[0].b_step;
    }
    WRITE_OUT for (int i = 0; i < count; i++) {
        out[i] = sums[i];
    }
}

/* Each of these is a function of its own, so that its loops have all registers of a small CPU. */
#define DEFINE_SUMS(name, a_count, b_count, kind)                                                            \
    static ETD_NOINLINE void name(const etd_sum_loop *loops, const float *a, int32_t a_distance,             \
                                  const float *b, const int32_t places[], float out[]) {                     \
        compute_sums(loops, a, a_distance, a_count, b, places, b_count, kind, out);                          \
    }

DEFINE_SUMS(sum_one, 1, 1, ANY_STEPS)
DEFINE_SUMS(sum_pairs_dense, FEW, FEW, PAIRED)
DEFINE_SUMS(sum_few, 1, FEW, ANY_STEPS)
DEFINE_SUMS(sum_few_dense, 1, FEW, DENSE)
DEFINE_SUMS(sum_many, 1, MANY, ANY_STEPS)
DEFINE_SUMS(sum_many_dense, 1, MANY, DENSE)
DEFINE_SUMS(sum_many_adjacent, 1, MANY, ADJACENT)
DEFINE_SUMS(sum_block, FEW, FEW, ANY_STEPS)
DEFINE_SUMS(sum_block_adjacent, FEW, FEW, ADJACENT)

/* Some vectors of `b`: their places, those of their outputs, and of what is added to these. */
typedef struct {
    int32_t places[MANY];
    int32_t outs[MANY];
    int32_t added[MANY];
    int32_t count;
    bool is_adjacent[MANY / FEW]; /* of each part: it is full, and its vectors begin beside each other */
} etd_group;

/* Moves along the vectors of `b`. */
typedef struct {
    int32_t place;
    int32_t out;
    int32_t added;
    int32_t column;
} etd_cursor;

static void move_by(etd_cursor *cursor, const etd_float_row *row, int32_t count) {
    cursor->place += count * row->step;
    cursor->out += count * row->out_step;
    cursor->added += count * row->added_step;
}

/* Moves to the next row if the cursor is at the end of one. */
static void end_row(const etd_float_products *products, etd_cursor *cursor) {
    const etd_float_row *columns = &products->b_columns;
    if (cursor->column == columns->count) {
        cursor->column = 0;
        move_by(cursor, columns, -columns->count);
        move_by(cursor, &products->b_rows, 1);
    }
}

static void next_vector(const etd_float_products *products, etd_cursor *cursor) {
    cursor->column++;
    move_by(cursor, &products->b_columns, 1);
    end_row(products, cursor);
}

/* Fills the group with the next `count` vectors. Missing ones, up to a full group, repeat the last one: they
 * are computed, but not stored. */
static void fill_group(const etd_float_products *products, etd_cursor *cursor, int32_t count,
                       etd_group *group) {
    const etd_float_row columns = products->b_columns;
    group->count = count;
    for (int32_t i = 0; i < count;) {
        const int32_t left = columns.count - cursor->column;
        const int32_t end = left < count - i ? i + left : count;
        etd_cursor at = *cursor; /* a copy, which no store to the group can change */
        at.column += end - i;
        for (; i < end; i++) {
            group->places[i] = at.place;
            group->outs[i] = at.out;
            group->added[i] = at.added;
            move_by(&at, &columns, 1);
        }
        *cursor = at;
        end_row(products, cursor);
    }
    for (int32_t i = count; i < MANY; i++) {
        group->places[i] = group->places[count - 1];
    }
    for (int32_t part = 0; part < MANY / FEW; part++) {
        const int32_t *places = group->places + part * FEW;
        group->is_adjacent[part] = true;
        for (int32_t i = 1; i < FEW; i++) {
            group->is_adjacent[part] &= places[i] == places[0] + i;
        }
    }
}

/* Where a batch begins. */
typedef struct {
    const float *a;
    const float *b;
    float *out;
    const float *added;
} etd_batch_start;

/* Stores the sums of one vector of `a` with `count` vectors of the group, from `first` on. */
static ETD_INLINE void store_sums(const etd_float_products *products, const etd_batch_start *start,
                                  int32_t row, const etd_group *group, int32_t first, int32_t count,
                                  const float *sums) {
    float *out = start->out + row * products->a_row.out_step;
    const int32_t *outs = group->outs + first;
    if (start->added == NULL) {
        WRITE_OUT for (int32_t i = 0; i < count; i++) {
            out[outs[i]] = sums[i];
        }
        return;
    }
    const float *added = start->added + row * products->a_row.added_step;
    const int32_t *places = group->added + first;
    const float alpha = products->alpha;
    const float beta = products->beta;
    WRITE_OUT for (int32_t i = 0; i < count; i++) {
        out[outs[i]] = alpha * sums[i] + beta * added[places[i]];
    }
}

/* As store_sums, for any count. */
static ETD_NOINLINE void store_some(const etd_float_products *products, const etd_batch_start *start,
                                    int32_t row, const etd_group *group, int32_t first, int32_t count,
                                    const float *sums) {
    for (int32_t i = 0; i < count; i++) {
        store_sums(products, start, row, group, first + i, 1, sums + i);
    }
}

static bool is_a_dense(const etd_float_products *products) {
    return products->loops[ETD_SUM_LOOPS - 1].a_step == 1;
}

static bool is_dense(const etd_float_products *products) {
    return is_a_dense(products) && products->loops[ETD_SUM_LOOPS - 1].b_step == 1;
}

/* Multiplies one vector of `a` with a group. */
static void multiply_row(const etd_float_products *products, const etd_batch_start *start, int32_t row,
                         const etd_group *group) {
    const float *a = start->a + row * products->a_row.step;
    const etd_sum_loop *loops = products->loops;
    const int32_t *places = group->places;
    float sums[MANY];
    if (group->count == 1) {
        sum_one(loops, a, 0, start->b, places, sums);
    } else if (group->count <= FEW && is_dense(products)) {
        sum_few_dense(loops, a, 0, start->b, places, sums);
    } else if (group->count <= FEW) {
        sum_few(loops, a, 0, start->b, places, sums);
    } else if (is_a_dense(products) && group->is_adjacent[0] && group->is_adjacent[1] &&
               places[FEW] == places[0] + FEW) {
        sum_many_adjacent(loops, a, 0, start->b, places, sums);
    } else if (is_dense(products)) {
        sum_many_dense(loops, a, 0, start->b, places, sums);
    } else {
        sum_many(loops, a, 0, start->b, places, sums);
    }
    if (group->count == MANY) {
        store_sums(products, start, row, group, 0, MANY, sums);
    } else {
        store_some(products, start, row, group, 0, group->count, sums);
    }
}

/* Multiplies four vectors of `a` with a part of a group. */
static void multiply_block(const etd_float_products *products, const etd_batch_start *start, int32_t row,
                           const etd_group *group, int32_t part) {
    const int32_t step = products->a_row.step;
    const int32_t first = part * FEW;
    const int32_t count = group->count - first < FEW ? group->count - first : FEW;
    const float *a = start->a + row * step;
    float sums[FEW * FEW];
    if (group->is_adjacent[part] && is_a_dense(products)) {
        sum_block_adjacent(products->loops, a, step, start->b, group->places + first, sums);
    } else {
        sum_block(products->loops, a, step, start->b, group->places + first, sums);
    }
    for (int32_t i = 0; i < FEW; i++) {
        if (count == FEW) {
            store_sums(products, start, row + i, group, first, FEW, sums + i * FEW);
        } else {
            store_some(products, start, row + i, group, first, count, sums + i * FEW);
        }
    }
}

static void move_batch(etd_batch_start *start, const etd_float_batch *batch, int32_t count) {
    start->a += count * batch->a_step;
    start->b += count * batch->b_step;
    start->out += count * batch->out_step;
    if (start->added != NULL) {
        start->added += count * batch->added_step;
    }
}

static void multiply_group(const etd_float_products *products, const etd_group *group) {
    const etd_float_batch *batch = &products->batch;
    etd_batch_start start = {products->a, products->b, products->out, products->added};
    for (int32_t left = batch->count; left > 0; left--) {
        int32_t row = 0;
        for (; row + FEW <= products->a_row.count; row += FEW) {
            for (int32_t part = 0; part * FEW < group->count; part++) {
                multiply_block(products, &start, row, group, part);
            }
        }
        for (; row < products->a_row.count; row++) {
            multiply_row(products, &start, row, group);
        }
        move_batch(&start, batch, 1);
    }
}

/* Multiplies the next `count` vectors of `b` with the single one of `a`, in several batches at once: for
 * areas of few positions in depthwise convolutions. */
static ETD_NOINLINE void compute_pairs(const etd_float_products *products, etd_cursor *cursor,
                                       int32_t count) {
    const etd_float_batch *batch = &products->batch;
    etd_group group; /* the same vector in adjacent batches */
    for (int32_t i = 0; i < FEW; i++) {
        group.places[i] = i * batch->b_step;
        group.outs[i] = i * batch->out_step;
        group.added[i] = i * batch->added_step;
    }
    for (; count > 0; count--) {
        etd_batch_start start = {products->a, products->b + cursor->place, products->out + cursor->out, NULL};
        start.added = products->added != NULL ? products->added + cursor->added : NULL;
        float sums[FEW];
        int32_t left = batch->count;
        for (; left >= FEW; left -= FEW) {
            sum_pairs_dense(products->loops, start.a, batch->a_step, start.b, group.places, sums);
            store_sums(products, &start, 0, &group, 0, FEW, sums);
            move_batch(&start, batch, FEW);
        }
        for (; left > 0; left--) {
            sum_one(products->loops, start.a, 0, start.b, group.places, sums);
            store_some(products, &start, 0, &group, 0, 1, sums);
            move_batch(&start, batch, 1);
        }
        next_vector(products, cursor);
    }
}

/* Multiplies all vectors of `a` with the next `count` ones of `b`. */
static ETD_NOINLINE void compute_vectors(const etd_float_products *products, etd_cursor *cursor,
                                         int32_t count) {
    etd_group group;
    while (count > 0) {
        fill_group(products, cursor, count < MANY ? count : MANY, &group);
        multiply_group(products, &group);
        count -= group.count;
    }
}

/* Multiplies the next vector of `b` with all vectors of `a`: their roles are exchanged, so that those of `a`
 * form groups. */
static ETD_NOINLINE void compute_single(const etd_float_products *products, const etd_cursor *cursor) {
    etd_float_products exchanged = *products;
    etd_cursor start = {0};
    exchanged.a = products->b + cursor->place;
    exchanged.b = products->a;
    exchanged.out += cursor->out;
    if (exchanged.added != NULL) {
        exchanged.added += cursor->added;
    }
    exchanged.a_row = (etd_float_row){1, 0, 0, 0};
    exchanged.b_rows = (etd_float_row){1, 0, 0, 0};
    exchanged.b_columns = products->a_row;
    exchanged.batch.a_step = products->batch.b_step;
    exchanged.batch.b_step = products->batch.a_step;
    for (uint32_t i = 0; i < ETD_SUM_LOOPS; i++) {
        exchanged.loops[i].a_step = products->loops[i].b_step;
        exchanged.loops[i].b_step = products->loops[i].a_step;
    }
    compute_vectors(&exchanged, &start, exchanged.b_columns.count);
}

void etd_compute_products(const etd_float_products *products) {
    const int32_t count = products->b_rows.count * products->b_columns.count;
    const int32_t single = products->a_row.count > 1 && count % FEW == 1 ? 1 : 0;
    etd_cursor cursor = {0};
    if (products->a_row.count == 1 && products->batch.count >= FEW && count < FEW && is_dense(products)) {
        compute_pairs(products, &cursor, count);
        return;
    }
    compute_vectors(products, &cursor, count - single);
    if (single != 0) {
        compute_single(products, &cursor);
    }
}
