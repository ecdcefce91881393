// SPDX-License-Identifier: Apache-2.0
#include "strided_copy.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Runs that are long enough for a call of memmove, in elements. */
#define LONG_RUN 8

typedef void (*copy_fn)(const uint8_t *from, uint8_t *to, const etd_copy_loop *outer,
                        const etd_copy_loop *inner);

/* Copies two nested loops of elements of one type. memcpy of one element is a load and a store. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a type in parentheses declares nothing. */
#define DEFINE_COPY(name, type)                                                                              \
    static void name(const uint8_t *from, uint8_t *to, const etd_copy_loop *outer,                           \
                     const etd_copy_loop *inner) {                                                           \
        const int32_t from_step = inner->from_step;                                                          \
        const int32_t to_step = inner->to_step;                                                              \
        const type *from_row = (const type *)(const void *)from;                                             \
        type *to_row = (type *)(void *)to;                                                                   \
        for (int32_t row = outer->count; row > 0; row--) {                                                   \
            const type *x = from_row;                                                                        \
            type *y = to_row;                                                                                \
            _Pragma("GCC unroll 4") for (int32_t left = inner->count; left > 0; left--) {                    \
                memcpy(y, x, sizeof(type));                                                                  \
                x += from_step;                                                                              \
                y += to_step;                                                                                \
            }                                                                                                \
            from_row += outer->from_step;                                                                    \
            to_row += outer->to_step;                                                                        \
        }                                                                                                    \
    }

DEFINE_COPY(copy_bytes, uint8_t)
DEFINE_COPY(copy_halves, uint16_t)
DEFINE_COPY(copy_words, uint32_t)
DEFINE_COPY(copy_doubles, uint64_t)
/* NOLINTEND(bugprone-macro-parentheses) */

/* Copies runs of adjacent bytes. */
static void copy_runs(const uint8_t *from, uint8_t *to, uint32_t size, const etd_copy_loop *outer,
                      uint32_t run) {
    for (int32_t row = 0; row < outer->count; row++) {
        memmove(to, from, run * size);
        from += outer->from_step * (int32_t)size;
        to += outer->to_step * (int32_t)size;
    }
}

static bool is_long_run(const etd_copy_loop *loop) {
    return loop->from_step == 1 && loop->to_step == 1 && loop->count >= LONG_RUN;
}

static uint32_t distance(int32_t step) {
    return step < 0 ? 0u - (uint32_t)step : (uint32_t)step;
}

static void swap_loops(etd_copy_loop *a, etd_copy_loop *b) {
    const etd_copy_loop kept = *a;
    *a = *b;
    *b = kept;
}

/* Moves the loops with the smallest distances to the end: that between sources, and that between targets. The
 * longer of the two becomes the innermost. */
static void order_loops(etd_copy_loop *loops, uint32_t count) {
    etd_copy_loop *last = &loops[count - 1];
    etd_copy_loop *before = last - 1;
    uint32_t nearest = 0;
    for (uint32_t i = 1; i < count; i++) {
        nearest = distance(loops[i].to_step) < distance(loops[nearest].to_step) ? i : nearest;
    }
    swap_loops(&loops[nearest], last);
    nearest = 0;
    for (uint32_t i = 1; i + 1 < count; i++) {
        nearest = distance(loops[i].from_step) < distance(loops[nearest].from_step) ? i : nearest;
    }
    swap_loops(&loops[nearest], before);
    if (before->count > last->count && !is_long_run(last)) {
        swap_loops(before, last);
    }
}

static copy_fn copy_of_size(uint32_t size) {
    switch (size) {
    case 1:
        return copy_bytes;
    case 2:
        return copy_halves;
    case 4:
        return copy_words;
    default:
        return copy_doubles;
    }
}

/* Sets one loop back to its start, or moves to its next element. Returns false at the end. */
static bool advance(etd_copy_loop *loop, int32_t *index, int32_t *from, int32_t *to) {
    *from += loop->from_step;
    *to += loop->to_step;
    if (++*index < loop->count) {
        return true;
    }
    *from -= loop->count * loop->from_step;
    *to -= loop->count * loop->to_step;
    *index = 0;
    return false;
}

/* Copies the two innermost loops. */
static void copy_inner(const uint8_t *from, uint8_t *to, uint32_t size, const etd_copy_loop *outer,
                       const etd_copy_loop *inner) {
    if (is_long_run(inner)) {
        copy_runs(from, to, size, outer, (uint32_t)inner->count);
    } else {
        copy_of_size(size)(from, to, outer, inner);
    }
}

void etd_copy_strided(const uint8_t *from, uint8_t *to, uint32_t size, etd_copy_loop *loops, uint32_t count) {
    static const etd_copy_loop once = {1, 0, 0};
    int32_t index[ETD_COPY_LOOPS] = {0};
    int32_t from_place = 0;
    int32_t to_place = 0;
    uint32_t depth;
    if (count > 1) {
        order_loops(loops, count);
    }
    const etd_copy_loop *inner = count > 0 ? &loops[count - 1] : &once;
    const etd_copy_loop *outer = count > 1 ? &loops[count - 2] : &once;
    do {
        copy_inner(from + (ptrdiff_t)from_place * (ptrdiff_t)size, to + (ptrdiff_t)to_place * (ptrdiff_t)size,
                   size, outer, inner);
        depth = count > 2 ? count - 2 : 0;
        while (depth > 0 && !advance(&loops[depth - 1], &index[depth - 1], &from_place, &to_place)) {
            depth--;
        }
    } while (depth > 0);
}
