// SPDX-License-Identifier: Apache-2.0
/* The inner loops of float_products.c: blocks of a few sums that share loads. */
#ifndef ETD_FLOAT_BLOCKS_H
#define ETD_FLOAT_BLOCKS_H

#include "float_products.h"

/* Vectors of `b` that are computed together, and of `a` if there is more than one. */
#define ETD_MANY 8
#define ETD_FEW 4

/* Some vectors of `a`, `a_distance` apart, times vectors of `b` at some places: a block of sums. The block is
 * computed again at other places in memory. */
typedef struct {
    const float *a;
    const float *b;
    float *out;
    const float *added; /* to the sums of the first vector of `a` */
    int32_t a_distance;
    int32_t out_distance;
    int32_t added_distance;
    const int32_t *places; /* of the vectors of `b` */
    const int32_t *outs;   /* of their outputs */
    etd_float_batch again;
} etd_blocks_of_sums;

/* Computes and stores all blocks. Each of these is a function of its own, so that its loops have all
 * registers of a small CPU. */
typedef void (*etd_blocks_fn)(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks);
void etd_sum_one(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks);
void etd_sum_few(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks);
void etd_sum_many(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks);

/* As these, if the vectors of `b` and their outputs are adjacent, and the elements of `a` in the innermost
 * loop. */
void etd_sum_two_adjacent(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks);
void etd_sum_few_adjacent(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks);
void etd_sum_many_adjacent(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks);

/* As these, if the elements of all vectors are adjacent in the innermost loop. */
void etd_sum_few_dense(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks);
void etd_sum_many_dense(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks);

/* Multiply ETD_FEW vectors of `a` with as many of `b`: at any places, with adjacent elements in the innermost
 * loop, with adjacent vectors of `b`, or with every second one. */
void etd_sum_block(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks);
void etd_sum_block_dense(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks);
void etd_sum_block_adjacent(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks);
void etd_sum_block_spaced(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks);

/* Multiplies each of ETD_FEW vectors of `a` with one of `b`. */
void etd_sum_pairs_dense(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks);

/* Multiply each of ETD_FEW vectors of `a`, whose elements are adjacent in the innermost loop, with one of as
 * many adjacent vectors of `b`. There are one or two such groups of `b` and its outputs, at `places`. What is
 * added differs between the vectors of `a`. */
void etd_sum_channels(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks);
void etd_sum_channels_twice(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks);

#endif
