// SPDX-License-Identifier: Apache-2.0
#include "float_products.h"

#include <stdbool.h>
#include <stddef.h>

#include "cpu.h"
#include "float_blocks.h"

/* Returns the difference. It may wrap where it leads beyond the last element, and nowhere. */
static int32_t subtract_step(int32_t step, int32_t done) {
    return (int32_t)((uint32_t)step - (uint32_t)done);
}

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
    for (uint32_t i = 0; i + 1 < ETD_SUM_LOOPS; i++) {
        etd_sum_loop *loop = &products->loops[i];
        const etd_sum_loop *inner = loop + 1;
        loop->a_step = subtract_step(loop->a_step, etd_scale_step(inner->count, inner->a_step));
        loop->b_step = subtract_step(loop->b_step, etd_scale_step(inner->count, inner->b_step));
    }
}

/* Some vectors of `b`: their places, those of their outputs, and of what is added to these. Missing vectors
 * repeat the last one: it is computed again, and stored again at the same place. */
typedef struct {
    int32_t places[ETD_MANY];
    int32_t outs[ETD_MANY];
    int32_t added[ETD_MANY];
    int32_t count;
    etd_float_batch again; /* groups that follow in the same row */
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

/* Returns the distance between places, or 0 if it differs. */
static int32_t find_distance(const int32_t places[ETD_FEW]) {
    const int32_t distance = places[1] - places[0];
    return places[2] - places[1] == distance && places[3] - places[2] == distance ? distance : 0;
}

static void set_vector(etd_group *group, int32_t i, const etd_cursor *at) {
    group->places[i] = at->place;
    group->outs[i] = at->out;
    group->added[i] = at->added;
}

/* Fills a group with the next vectors of the row, and takes the groups alike that follow in it. */
static void take_from_row(const etd_float_products *products, etd_cursor *cursor, int32_t in_row,
                          etd_group *group) {
    const etd_float_row columns = products->b_columns;
    etd_cursor at = *cursor; /* a copy, which no store to the group can change */
    for (int32_t i = 0; i < ETD_MANY; i++) {
        set_vector(group, i, &at);
        if (i + 1 < group->count) {
            move_by(&at, &columns, 1);
        }
    }
    if (in_row >= ETD_MANY) {
        group->again.count = in_row / ETD_MANY;
    }
    cursor->column += group->count * group->again.count;
    move_by(cursor, &columns, group->count * group->again.count);
    end_row(products, cursor);
}

/* Fills a group with the next vectors, from as many rows as it takes. */
static ETD_NOINLINE void take_from_rows(const etd_float_products *products, etd_cursor *cursor,
                                        etd_group *group) {
    for (int32_t i = 0; i < ETD_MANY; i++) {
        set_vector(group, i, cursor);
        if (i + 1 < group->count) {
            next_vector(products, cursor);
        }
    }
    next_vector(products, cursor);
}

/* Takes a group of the next vectors, and the groups alike in the same row; at most `count` vectors. */
static void take_group(const etd_float_products *products, etd_cursor *cursor, int32_t count,
                       etd_group *group) {
    const etd_float_row *columns = &products->b_columns;
    const int32_t left = columns->count - cursor->column;
    const int32_t in_row = left < count ? left : count;
    group->count = count < ETD_MANY ? count : ETD_MANY;
    group->again = (etd_float_batch){1, 0, etd_scale_step(columns->step, ETD_MANY),
                                     etd_scale_step(columns->out_step, ETD_MANY),
                                     etd_scale_step(columns->added_step, ETD_MANY)};
    if (in_row >= group->count) {
        take_from_row(products, cursor, in_row, group);
    } else {
        take_from_rows(products, cursor, group);
    }
}

static bool is_a_dense(const etd_float_products *products) {
    return products->loops[ETD_SUM_LOOPS - 1].a_step == 1;
}

static bool is_dense(const etd_float_products *products) {
    return is_a_dense(products) && products->loops[ETD_SUM_LOOPS - 1].b_step == 1;
}

static bool are_adjacent(const int32_t places[], int32_t count) {
    for (int32_t i = 1; i < count; i++) {
        if (places[i] != places[0] + i) {
            return false;
        }
    }
    return true;
}

/* Returns the function for one vector of `a` and a whole group. */
static etd_blocks_fn choose_row(const etd_float_products *products, const etd_group *group) {
    const int32_t count = group->count;
    const bool is_adjacent =
        is_a_dense(products) && are_adjacent(group->places, count) && are_adjacent(group->outs, count);
    if (count <= 2 && (count == 1 || is_adjacent)) {
        return count == 1 ? etd_sum_one : etd_sum_two_adjacent;
    }
    if (is_adjacent && (count == ETD_FEW || count == ETD_MANY)) {
        return count == ETD_FEW ? etd_sum_few_adjacent : etd_sum_many_adjacent;
    }
    if (is_dense(products)) {
        return count <= ETD_FEW ? etd_sum_few_dense : etd_sum_many_dense;
    }
    return count <= ETD_FEW ? etd_sum_few : etd_sum_many;
}

/* Returns the function for four vectors of `a` and the part of a group that begins at `first`. A CPU without
 * vectors of float32 loads adjacent elements of a vector with less work than adjacent vectors. */
static etd_blocks_fn choose_block(const etd_float_products *products, const etd_group *group, int32_t first) {
    if (!ETD_FLOAT_VECTORS && is_dense(products)) {
        return etd_sum_block_dense;
    }
    if (is_a_dense(products) && find_distance(group->outs + first) == 1) {
        const int32_t distance = find_distance(group->places + first);
        if (distance == 1 || distance == 2) {
            return distance == 1 ? etd_sum_block_adjacent : etd_sum_block_spaced;
        }
    }
    return is_dense(products) ? etd_sum_block_dense : etd_sum_block;
}

/* Returns the first block of one vector of `a`. */
static etd_blocks_of_sums begin_blocks(const etd_float_products *products) {
    return (etd_blocks_of_sums){
        .a = products->a, .b = products->b, .out = products->out, .added = products->added};
}

/* Moves the blocks by `count` of the steps. */
static void move_blocks(etd_blocks_of_sums *blocks, const etd_float_batch *steps, int32_t count) {
    blocks->a += count * steps->a_step;
    blocks->b += count * steps->b_step;
    blocks->out += count * steps->out_step;
    blocks->added += count * steps->added_step;
}

/* Computes blocks at all places of two batches. The function itself goes along the longer one. Like its
 * callers it moves the blocks back, as copies of them would take too much of a small stack. */
static void compute_grid(etd_blocks_fn compute, const etd_sum_loop *loops, etd_blocks_of_sums *blocks,
                         const etd_float_batch *one, const etd_float_batch *other) {
    const bool is_one_longer = one->count > other->count;
    const etd_float_batch *outer = is_one_longer ? other : one;
    blocks->again = is_one_longer ? *one : *other;
    for (int32_t left = outer->count; left > 0; left--) {
        compute(loops, blocks);
        move_blocks(blocks, outer, 1);
    }
    move_blocks(blocks, outer, -outer->count);
}

/* Multiplies all vectors of `a` with a group and those alike: four at a time, then the rest. */
static void multiply_rows(const etd_float_products *products, const etd_group *group,
                          etd_blocks_of_sums *blocks, const etd_float_batch *again) {
    const etd_float_row *rows = &products->a_row;
    const int32_t fours = rows->count / ETD_FEW;
    etd_float_batch batch = {fours, ETD_FEW * rows->step, 0, ETD_FEW * rows->out_step,
                             ETD_FEW * rows->added_step};
    for (int32_t first = 0; first < group->count; first += ETD_FEW) {
        blocks->places = group->places + first;
        blocks->outs = group->outs + first;
        compute_grid(choose_block(products, group, first), products->loops, blocks, &batch, again);
    }
    if (rows->count % ETD_FEW > 0) {
        move_blocks(blocks, &batch, fours);
        batch = (etd_float_batch){rows->count % ETD_FEW, rows->step, 0, rows->out_step, rows->added_step};
        blocks->places = group->places;
        blocks->outs = group->outs;
        compute_grid(choose_row(products, group), products->loops, blocks, &batch, again);
        move_blocks(blocks, &batch, -fours * ETD_FEW); /* back over the fours, too */
    }
}

/* Multiplies all vectors of `a` with a group and those alike, in all batches. */
static void multiply_group(const etd_float_products *products, const etd_group *group) {
    const etd_float_row *rows = &products->a_row;
    const etd_float_batch *batch = &products->batch;
    etd_float_batch again = group->again;
    etd_blocks_of_sums blocks = begin_blocks(products);
    again.added_step = 0; /* what differs between vectors of `b` is added later */
    blocks.places = group->places;
    blocks.outs = group->outs;
    blocks.a_distance = rows->step;
    blocks.out_distance = rows->out_step;
    blocks.added_distance = rows->added_step;
    if (rows->count == 1) {
        compute_grid(choose_row(products, group), products->loops, &blocks, batch, &again);
        return;
    }
    for (int32_t left = batch->count; left > 0; left--) {
        multiply_rows(products, group, &blocks, &again);
        move_blocks(&blocks, batch, 1);
    }
}

/* Replaces the sums of one vector of `a` by alpha * sum + beta * added. */
static void add_to_row(const etd_float_products *products, const etd_group *group, float *out,
                       const float *added) {
    const etd_float_batch *again = &group->again;
    const float alpha = products->alpha;
    const float beta = products->beta;
    for (int32_t left = again->count; left > 0; left--) {
        for (int32_t i = 0; i < group->count; i++) {
            float *sum = out + group->outs[i];
            *sum = alpha * *sum + beta * added[group->added[i]];
        }
        out += again->out_step;
        added += again->added_step;
    }
}

/* Replaces all sums of a group and those alike. */
static ETD_NOINLINE void add_to_sums(const etd_float_products *products, const etd_group *group) {
    const etd_float_row *rows = &products->a_row;
    const etd_float_batch *batch = &products->batch;
    for (int32_t number = 0; number < batch->count; number++) {
        for (int32_t row = 0; row < rows->count; row++) {
            add_to_row(products, group, products->out + number * batch->out_step + row * rows->out_step,
                       products->added + number * batch->added_step + row * rows->added_step);
        }
    }
}

/* Multiplies the next `count` vectors of `b` with the single one of `a`, in several batches at once: for
 * areas of few positions in depthwise convolutions. */
static ETD_NOINLINE void compute_pairs(const etd_float_products *products, etd_cursor *cursor,
                                       int32_t count) {
    const etd_float_batch *batch = &products->batch;
    const int32_t fours = batch->count / ETD_FEW;
    int32_t places[ETD_FEW]; /* of the same vector in adjacent batches */
    int32_t outs[ETD_FEW];
    for (int32_t i = 0; i < ETD_FEW; i++) {
        places[i] = i * batch->b_step;
        outs[i] = i * batch->out_step;
    }
    for (; count > 0; count--) {
        etd_blocks_of_sums blocks = begin_blocks(products);
        blocks.b += cursor->place;
        blocks.out += cursor->out;
        blocks.a_distance = batch->a_step;
        blocks.added_distance = batch->added_step;
        blocks.places = places;
        blocks.outs = outs;
        blocks.again = (etd_float_batch){fours, ETD_FEW * batch->a_step, ETD_FEW * batch->b_step,
                                         ETD_FEW * batch->out_step, ETD_FEW * batch->added_step};
        etd_sum_pairs_dense(products->loops, &blocks);
        move_blocks(&blocks, batch, ETD_FEW * fours);
        blocks.again = *batch;
        blocks.again.count = batch->count % ETD_FEW;
        etd_sum_one(products->loops, &blocks);
        next_vector(products, cursor);
    }
}

/* Returns true if the batches are adjacent channels of an image, as in a depthwise convolution. */
static bool are_batches_adjacent(const etd_float_products *products) {
    return products->a_row.count == 1 && products->batch.count >= ETD_FEW && products->batch.b_step == 1 &&
           products->batch.out_step == 1 && is_a_dense(products);
}

/* Computes ETD_FEW batches together, at `size` places of a row of vectors of `b`, then at the next ones. */
static void compute_places(const etd_float_products *products, etd_blocks_of_sums *blocks,
                           const etd_float_row *row, int32_t size, int32_t count) {
    const etd_float_batch *batch = &products->batch;
    const etd_float_batch fours = {batch->count / ETD_FEW, ETD_FEW * batch->a_step, ETD_FEW, ETD_FEW,
                                   ETD_FEW * batch->added_step};
    const etd_float_batch along = {count, 0, etd_scale_step(row->step, size),
                                   etd_scale_step(row->out_step, size), 0};
    compute_grid(size == 1 ? etd_sum_channels : etd_sum_channels_twice, products->loops, blocks, &fours,
                 &along);
}

/* Multiplies all vectors of `b` with the single one of `a`, ETD_FEW adjacent batches at a time. The batches
 * that are left then are the first of the description. */
static ETD_NOINLINE void compute_adjacent_batches(etd_float_products *products) {
    const bool are_rows_longer = products->b_rows.count > products->b_columns.count;
    const etd_float_row *outer = are_rows_longer ? &products->b_columns : &products->b_rows;
    const etd_float_row *inner = are_rows_longer ? &products->b_rows : &products->b_columns;
    const int32_t places[] = {0, inner->step};
    const int32_t outs[] = {0, inner->out_step};
    const int32_t twos = inner->count / 2;
    etd_blocks_of_sums blocks = begin_blocks(products);
    blocks.places = places;
    blocks.outs = outs;
    blocks.a_distance = products->batch.a_step;
    blocks.added_distance = products->batch.added_step;
    for (int32_t row = 0; row < outer->count; row++) {
        blocks.b = products->b + row * outer->step;
        blocks.out = products->out + row * outer->out_step;
        compute_places(products, &blocks, inner, 2, twos);
        if (inner->count % 2 != 0) {
            blocks.b += 2 * twos * inner->step;
            blocks.out += 2 * twos * inner->out_step;
            compute_places(products, &blocks, inner, 1, 1);
        }
    }
    const int32_t done = products->batch.count / ETD_FEW * ETD_FEW;
    blocks = begin_blocks(products);
    move_blocks(&blocks, &products->batch, done);
    products->a = blocks.a;
    products->b = blocks.b;
    products->out = blocks.out;
    products->added = blocks.added;
    products->batch.count -= done;
}

/* Makes one row of rows that continue each other. */
static void merge_rows(etd_float_row *rows, etd_float_row *columns) {
    if (rows->step == etd_scale_step(columns->step, columns->count) &&
        rows->out_step == etd_scale_step(columns->out_step, columns->count) &&
        rows->added_step == etd_scale_step(columns->added_step, columns->count)) {
        columns->count *= rows->count;
        rows->count = 1;
    }
}

/* Returns true if the same number is added to all sums of a vector of `a`, or none. */
static bool adds_same(const etd_float_products *products) {
    return products->added == NULL ||
           (products->alpha == 1.0f && products->beta == 1.0f && products->b_rows.added_step == 0 &&
            products->b_columns.added_step == 0);
}

/* Multiplies all vectors of `a` with the next `count` ones of `b`. `added` has what is added to the sums
 * later, or is NULL. */
static ETD_NOINLINE void compute_groups(const etd_float_products *sums, const etd_float_products *added,
                                        etd_cursor *cursor, int32_t count) {
    etd_group group;
    while (count > 0) {
        take_group(sums, cursor, count, &group);
        multiply_group(sums, &group);
        if (added != NULL) {
            add_to_sums(added, &group);
        }
        count -= group.count * group.again.count;
    }
}

static void compute_vectors(const etd_float_products *products, etd_cursor *cursor, int32_t count) {
    static const float nothing = -0.0f; /* changes no number that it is added to */
    const bool is_same = adds_same(products);
    etd_float_products sums = *products;
    merge_rows(&sums.b_rows, &sums.b_columns);
    if (!is_same || products->added == NULL) {
        sums.added = &nothing;
        sums.a_row.added_step = 0;
        sums.batch.added_step = 0;
    }
    if (is_same && are_batches_adjacent(&sums)) {
        compute_adjacent_batches(&sums);
    }
    if (sums.batch.count == 0) {
        return;
    }
    if (sums.a_row.count == 1 && sums.batch.count >= ETD_FEW && count < ETD_FEW && is_same &&
        is_dense(products)) {
        compute_pairs(&sums, cursor, count);
    } else {
        compute_groups(&sums, is_same ? NULL : products, cursor, count);
    }
}

/* Exchanges the roles of the vectors of `a` and of the next one of `b`, so that those of `a` form groups. */
static void exchange(etd_float_products *products, const etd_cursor *cursor) {
    const float *a = products->a;
    const int32_t a_step = products->batch.a_step;
    products->a = products->b + cursor->place;
    products->b = a;
    products->out += cursor->out;
    if (products->added != NULL) {
        products->added += cursor->added;
    }
    products->b_columns = products->a_row;
    products->b_rows = (etd_float_row){1, 0, 0, 0};
    products->a_row = (etd_float_row){1, 0, 0, 0};
    products->batch.a_step = products->batch.b_step;
    products->batch.b_step = a_step;
    for (uint32_t i = 0; i < ETD_SUM_LOOPS; i++) {
        etd_sum_loop *loop = &products->loops[i];
        *loop = (etd_sum_loop){loop->count, loop->b_step, loop->a_step};
    }
}

void etd_compute_products(etd_float_products *products) {
    const int32_t count = products->b_rows.count * products->b_columns.count;
    const int32_t single = products->a_row.count > 1 && count % ETD_FEW == 1 ? 1 : 0;
    etd_cursor cursor = {0};
    compute_vectors(products, &cursor, count - single);
    if (single != 0) {
        exchange(products, &cursor);
        cursor = (etd_cursor){0};
        compute_vectors(products, &cursor, products->b_columns.count);
    }
}
