// SPDX-License-Identifier: Apache-2.0
#include "float_blocks.h"

#include <stdbool.h>

#include "cpu.h"

#define MOST (ETD_FEW * ETD_FEW)

/* What a loop over a group is specialized for. In all but the first kind the elements of the vectors of `a`
 * are adjacent in the innermost loop. */
typedef enum {
    ANY_STEPS,
    ADJACENT, /* the vectors of `b` are adjacent, element by element, and so are their outputs */
    SPACED,   /* as ADJACENT, with an element between every two vectors */
    DENSE,    /* the elements of the vectors of `b` are adjacent in the innermost loop */
    PAIRED,   /* as DENSE; each vector of `b` has one of `a` of its own */
    CHANNELS  /* each vector of `a` has one of `b` of its own at each place; these and their outputs are
                 adjacent */
} etd_group_kind;

/* The loops over the vectors of a group are written out by the compiler, so that their sums stay in
 * registers. Counts and kind are constants where these functions are inlined. */
#define WRITE_OUT _Pragma("GCC unroll 16")

static ETD_INLINE void move_all(const float *pointers[], int count, int32_t step) {
    WRITE_OUT for (int i = 0; i < count; i++) {
        pointers[i] += step;
    }
}

/* Adds the products of the innermost loop, if each vector of `a` has one of `b` of its own at each place. */
static ETD_INLINE void add_channels(const float *a[], int a_count, const float *b[], int b_count,
                                    const etd_sum_loop *loop, float sums[]) {
    const int32_t b_step = loop->b_step;
    for (int32_t left = loop->count; left > 0; left--) {
        float factors[ETD_FEW];
        WRITE_OUT for (int i = 0; i < a_count; i++) {
            factors[i] = *a[i];
        }
        WRITE_OUT for (int j = 0; j < b_count; j++) {
            WRITE_OUT for (int i = 0; i < a_count; i++) {
                sums[i * b_count + j] += factors[i] * b[j][i];
            }
            b[j] += b_step;
            ETD_KEEP_POINTER(b[j]);
        }
        WRITE_OUT for (int i = 0; i < a_count; i++) {
            a[i]++;
            ETD_KEEP_POINTER(a[i]);
        }
    }
}

/* Adds the products of the innermost loop. */
static ETD_INLINE void add_products(const float *a[], int a_count, const float *b[], int b_count,
                                    const etd_sum_loop *loop, etd_group_kind kind, float sums[]) {
    const int32_t a_step = kind == ANY_STEPS ? loop->a_step : 1;
    const int32_t b_step = kind == DENSE || kind == PAIRED ? 1 : loop->b_step;
    for (int32_t left = loop->count; left > 0; left--) {
        float numbers[ETD_MANY];
        WRITE_OUT for (int j = 0; j < b_count; j++) {
            numbers[j] = kind == ADJACENT ? b[0][j] : kind == SPACED ? b[0][2 * j] : *b[j];
        }
        WRITE_OUT for (int j = 0; j < b_count; j++) {
            b[j] += b_step;
            ETD_KEEP_POINTER(b[j]);
        }
        WRITE_OUT for (int i = 0; i < a_count; i++) {
            const float factor = *a[i];
            if (kind == PAIRED) {
                /* As many at a as at b. NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
                sums[i] += factor * numbers[i];
                continue;
            }
            WRITE_OUT for (int j = 0; j < b_count; j++) {
                sums[i * b_count + j] += factor * numbers[j];
            }
        }
        WRITE_OUT for (int i = 0; i < a_count; i++) {
            a[i] += a_step;
            ETD_KEEP_POINTER(a[i]);
        }
    }
}

/* Computes the sums of one block. All pointers stay in registers from one innermost loop to the next. */
static ETD_INLINE void compute_sums(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks,
                                    const float *a_first, const float *b_first, int a_count, int b_count,
                                    etd_group_kind kind, float sums[]) {
    const float *a[ETD_FEW];
    const float *b[ETD_MANY];
    WRITE_OUT for (int i = 0; i < a_count; i++) {
        a[i] = a_first + i * blocks->a_distance;
    }
    WRITE_OUT for (int j = 0; j < b_count; j++) {
        b[j] = b_first + blocks->places[j];
    }
    for (int32_t outer = loops[0].count; outer > 0; outer--) {
        for (int32_t middle = loops[1].count; middle > 0; middle--) {
            ETD_FORGET(loops);
            if (kind == CHANNELS) {
                add_channels(a, a_count, b, b_count, &loops[ETD_SUM_LOOPS - 1], sums);
            } else {
                add_products(a, a_count, b, b_count, &loops[ETD_SUM_LOOPS - 1], kind, sums);
            }
            move_all(a, a_count, loops[1].a_step);
            move_all(b, b_count, loops[1].b_step);
        }
        move_all(a, a_count, loops[0].a_step);
        move_all(b, b_count, loops[0].b_step);
    }
}

/* Stores the sums of one block; adjacent outputs are those of different vectors of `a`. */
static ETD_INLINE void store_channels(const etd_blocks_of_sums *blocks, float *out, const float *added,
                                      int a_count, int b_count, const float sums[]) {
    float same[ETD_FEW];
    WRITE_OUT for (int i = 0; i < a_count; i++) {
        same[i] = *added;
        added += blocks->added_distance;
    }
    WRITE_OUT for (int j = 0; j < b_count; j++) {
        float *at = out + blocks->outs[j];
        WRITE_OUT for (int i = 0; i < a_count; i++) {
            at[i] = sums[i * b_count + j] + same[i];
        }
    }
}

/* Stores the sums of one block. */
static ETD_INLINE void store_sums(const etd_blocks_of_sums *blocks, float *out, const float *added,
                                  int a_count, int b_count, etd_group_kind kind, const float sums[]) {
    const bool are_outs_adjacent = kind == ADJACENT || kind == SPACED;
    float *outs[ETD_MANY];
    WRITE_OUT for (int j = 0; j < b_count; j++) {
        outs[j] = are_outs_adjacent ? out + blocks->outs[0] + j : out + blocks->outs[j];
    }
    WRITE_OUT for (int i = 0; i < a_count; i++) {
        const float same = *added;
        added += blocks->added_distance;
        if (kind == PAIRED) {
            out[blocks->outs[i]] = sums[i] + same;
            continue;
        }
        WRITE_OUT for (int j = 0; j < b_count; j++) {
            float *at = are_outs_adjacent ? outs[0] + j : outs[j];
            *at = sums[i * b_count + j] + same;
        }
        WRITE_OUT for (int j = 0; j < b_count; j++) {
            outs[j] += blocks->out_distance;
        }
    }
}

/* Computes `a_count` times `b_count` sums per block, or `a_count` pairs. */
static ETD_INLINE void compute_blocks(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks,
                                      int a_count, int b_count, etd_group_kind kind) {
    const float *a = blocks->a;
    const float *b = blocks->b;
    const float *added = blocks->added;
    float *out = blocks->out;
    const int count = kind == PAIRED ? a_count : a_count * b_count;
    for (int32_t left = blocks->again.count; left > 0; left--) {
        float sums[MOST];
        ETD_FORGET(blocks);
        WRITE_OUT for (int i = 0; i < count; i++) {
            sums[i] = 0.0f;
        }
        compute_sums(loops, blocks, a, b, a_count, b_count, kind, sums);
        if (kind == CHANNELS) {
            store_channels(blocks, out, added, a_count, b_count, sums);
        } else {
            store_sums(blocks, out, added, a_count, b_count, kind, sums);
        }
        a += blocks->again.a_step;
        b += blocks->again.b_step;
        out += blocks->again.out_step;
        added += blocks->again.added_step;
    }
}

/* Each of these is a function of its own, so that its loops have all registers of a small CPU. */
#define DEFINE_BLOCKS(name, a_count, b_count, kind)                                                          \
    void name(const etd_sum_loop *loops, const etd_blocks_of_sums *blocks) {                                 \
        compute_blocks(loops, blocks, a_count, b_count, kind);                                               \
    }

DEFINE_BLOCKS(etd_sum_one, 1, 1, ANY_STEPS)
DEFINE_BLOCKS(etd_sum_pairs_dense, ETD_FEW, ETD_FEW, PAIRED)
DEFINE_BLOCKS(etd_sum_two_adjacent, 1, 2, ADJACENT)
DEFINE_BLOCKS(etd_sum_few, 1, ETD_FEW, ANY_STEPS)
DEFINE_BLOCKS(etd_sum_few_adjacent, 1, ETD_FEW, ADJACENT)
DEFINE_BLOCKS(etd_sum_few_dense, 1, ETD_FEW, DENSE)
DEFINE_BLOCKS(etd_sum_many, 1, ETD_MANY, ANY_STEPS)
DEFINE_BLOCKS(etd_sum_many_adjacent, 1, ETD_MANY, ADJACENT)
DEFINE_BLOCKS(etd_sum_many_dense, 1, ETD_MANY, DENSE)
DEFINE_BLOCKS(etd_sum_block, ETD_FEW, ETD_FEW, ANY_STEPS)
DEFINE_BLOCKS(etd_sum_block_adjacent, ETD_FEW, ETD_FEW, ADJACENT)
DEFINE_BLOCKS(etd_sum_block_spaced, ETD_FEW, ETD_FEW, SPACED)
DEFINE_BLOCKS(etd_sum_block_dense, ETD_FEW, ETD_FEW, DENSE)
DEFINE_BLOCKS(etd_sum_channels, ETD_FEW, 1, CHANNELS)
DEFINE_BLOCKS(etd_sum_channels_twice, ETD_FEW, 2, CHANNELS)
