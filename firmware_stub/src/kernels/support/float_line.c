// SPDX-License-Identifier: Apache-2.0
#include "float_line.h"

#include <stdbool.h>

#include "cpu.h"

#define UNROLLED 4 /* elements of `x` per round of a loop */
#define MOST 8     /* outputs that are computed together */

#define WRITE_OUT _Pragma("GCC unroll 8")

/* add_rows and add_lines add the products of the next UNROLLED elements of `x` to a few sums. An FPU loads
 * several adjacent numbers with one instruction, which compilers do not choose by themselves. Products and
 * sums are rounded apart, and added in the same order as in C. */
#if ETD_VFP
#define LOAD(pointer, registers) "vldmia %[" pointer "], {" registers "}\n\t"
#define LOAD_NEXT(pointer, registers) "vldmia %[" pointer "]!, {" registers "}\n\t"
#define MULTIPLY(product, factor) "vmul.f32 " product ", " product ", " factor "\n\t"
#define ADD(sum, product) "vadd.f32 %[" sum "], %[" sum "], " product "\n\t"
#define NEXT_ROW "add %[w], %[w], %[step]\n\t"

#define MULTIPLY_TWO(x) MULTIPLY("s0", x) MULTIPLY("s1", x)
#define MULTIPLY_FOUR(x) MULTIPLY_TWO(x) MULTIPLY("s2", x) MULTIPLY("s3", x)
#define MULTIPLY_EIGHT(x)                                                                                    \
    MULTIPLY_FOUR(x) MULTIPLY("s4", x) MULTIPLY("s5", x) MULTIPLY("s6", x) MULTIPLY("s7", x)
#define ADD_TWO ADD("sum0", "s0") ADD("sum1", "s1")
#define ADD_FOUR ADD_TWO ADD("sum2", "s2") ADD("sum3", "s3")
#define ADD_EIGHT ADD_FOUR ADD("sum4", "s4") ADD("sum5", "s5") ADD("sum6", "s6") ADD("sum7", "s7")

#define ROW_OF_TWO(x) LOAD("w", "s0-s1") NEXT_ROW MULTIPLY_TWO(x) ADD_TWO
#define ROW_OF_FOUR(x) LOAD("w", "s0-s3") NEXT_ROW MULTIPLY_FOUR(x) ADD_FOUR
#define ROW_OF_EIGHT(x) LOAD("w", "s0-s7") NEXT_ROW MULTIPLY_EIGHT(x) ADD_EIGHT
/* Rows of two without gaps. */
#define FOUR_PAIRS                                                                                           \
    LOAD_NEXT("x", "s8-s11")                                                                                 \
    LOAD_NEXT("w", "s0-s7")                                                                                  \
    MULTIPLY_TWO("s8")                                                                                       \
    MULTIPLY("s2", "s9")                                                                                     \
    MULTIPLY("s3", "s9")                                                                                     \
    MULTIPLY("s4", "s10")                                                                                    \
    MULTIPLY("s5", "s10")                                                                                    \
    MULTIPLY("s6", "s11")                                                                                    \
    MULTIPLY("s7", "s11")                                                                                    \
    ADD_TWO                                                                                                  \
    ADD("sum0", "s2")                                                                                        \
    ADD("sum1", "s3")                                                                                        \
    ADD("sum0", "s4")                                                                                        \
    ADD("sum1", "s5")                                                                                        \
    ADD("sum0", "s6")                                                                                        \
    ADD("sum1", "s7")
#define FOUR_ROWS(row) LOAD_NEXT("x", "s8-s11") row("s8") row("s9") row("s10") row("s11")

/* The sums of two lines take turns, so that none waits for the one before. */
#define TWO_LINES(w0, w1, sum0, sum1)                                                                        \
    LOAD_NEXT(w0, "s0-s3")                                                                                   \
    LOAD_NEXT(w1, "s4-s7")                                                                                   \
    MULTIPLY("s0", "s8")                                                                                     \
    MULTIPLY("s4", "s8")                                                                                     \
    MULTIPLY("s1", "s9")                                                                                     \
    MULTIPLY("s5", "s9")                                                                                     \
    MULTIPLY("s2", "s10")                                                                                    \
    MULTIPLY("s6", "s10")                                                                                    \
    MULTIPLY("s3", "s11")                                                                                    \
    MULTIPLY("s7", "s11")                                                                                    \
    ADD(sum0, "s0")                                                                                          \
    ADD(sum1, "s4")                                                                                          \
    ADD(sum0, "s1")                                                                                          \
    ADD(sum1, "s5")                                                                                          \
    ADD(sum0, "s2")                                                                                          \
    ADD(sum1, "s6")                                                                                          \
    ADD(sum0, "s3")                                                                                          \
    ADD(sum1, "s7")

#define SUMS_OF_TWO [sum0] "+t"(sums[0]), [sum1] "+t"(sums[1])
#define SUMS_OF_FOUR SUMS_OF_TWO, [sum2] "+t"(sums[2]), [sum3] "+t"(sums[3])
#define SUMS_OF_EIGHT                                                                                        \
    SUMS_OF_FOUR, [sum4] "+t"(sums[4]), [sum5] "+t"(sums[5]), [sum6] "+t"(sums[6]), [sum7] "+t"(sums[7])
#define USED "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "memory"

static ETD_INLINE void add_rows(const float **x, const float **w, int32_t step, float sums[], int count) {
    const int32_t bytes = step * (int32_t)sizeof **w;
    if (count == 8) {
        __asm__(FOUR_ROWS(ROW_OF_EIGHT)
                : [x] "+r"(*x), [w] "+r"(*w), SUMS_OF_EIGHT
                : [step] "r"(bytes)
                : USED);
    } else if (count == 4) {
        __asm__(FOUR_ROWS(ROW_OF_FOUR) : [x] "+r"(*x), [w] "+r"(*w), SUMS_OF_FOUR : [step] "r"(bytes) : USED);
    } else if (step == 2) {
        __asm__(FOUR_PAIRS : [x] "+r"(*x), [w] "+r"(*w), SUMS_OF_TWO : : USED);
    } else {
        __asm__(FOUR_ROWS(ROW_OF_TWO) : [x] "+r"(*x), [w] "+r"(*w), SUMS_OF_TWO : [step] "r"(bytes) : USED);
    }
}

static ETD_INLINE void add_lines(const float **x, const float *w[], float sums[], int count) {
    if (count == 4) {
        __asm__(LOAD_NEXT("x", "s8-s11") TWO_LINES("w0", "w1", "sum0", "sum1")
                    TWO_LINES("w2", "w3", "sum2", "sum3")
                : [x] "+r"(*x), [w0] "+r"(w[0]), [w1] "+r"(w[1]), [w2] "+r"(w[2]), [w3] "+r"(w[3]),
                  SUMS_OF_FOUR
                :
                : USED);
    } else {
        __asm__(LOAD_NEXT("x", "s8-s11") TWO_LINES("w0", "w1", "sum0", "sum1")
                : [x] "+r"(*x), [w0] "+r"(w[0]), [w1] "+r"(w[1]), SUMS_OF_TWO
                :
                : USED);
    }
}
#else
static ETD_INLINE void add_rows(const float **x, const float **w, int32_t step, float sums[], int count) {
    for (int k = 0; k < UNROLLED; k++) {
        const float factor = *(*x)++;
        WRITE_OUT for (int j = 0; j < count; j++) {
            sums[j] += factor * (*w)[j];
        }
        *w += step;
    }
}

static ETD_INLINE void add_lines(const float **x, const float *w[], float sums[], int count) {
    for (int k = 0; k < UNROLLED; k++) {
        const float factor = *(*x)++;
        WRITE_OUT for (int j = 0; j < count; j++) {
            sums[j] += factor * *w[j]++;
        }
    }
}
#endif

/* What differs between groups of outputs. */
typedef struct {
    const float *w;
    const float *added;
    float *out;
    int32_t left; /* outputs */
} etd_line_place;

/* Stores sums, with what is added to them. */
static ETD_INLINE void store(const etd_float_line *line, const etd_line_place *place, const float sums[],
                             int count) {
    const int32_t step = line->added_step;
    if (line->is_scaled) {
        WRITE_OUT for (int j = 0; j < count; j++) {
            place->out[j] = line->alpha * sums[j] + line->beta * place->added[j * step];
        }
    } else if (step == 1) {
        WRITE_OUT for (int j = 0; j < count; j++) {
            place->out[j] = sums[j] + place->added[j];
        }
    } else {
        const float *added = place->added;
        WRITE_OUT for (int j = 0; j < count; j++) {
            place->out[j] = sums[j] + *added;
            added += step;
        }
    }
}

/* Computes outputs whose weights are adjacent in each row; `step` is from row to row. */
static ETD_INLINE void sum_rows_at(const etd_float_line *line, const float *w, int32_t step, float sums[],
                                   int count) {
    const float *x = line->x;
    uint32_t left = line->depth;
    if (count > 1) {
        for (uint32_t rounds = left / UNROLLED; rounds > 0; rounds--) {
            add_rows(&x, &w, step, sums, count);
        }
        left %= UNROLLED;
    }
    for (; left > 0; left--) {
        const float factor = *x++;
        WRITE_OUT for (int j = 0; j < count; j++) {
            sums[j] += factor * w[j];
        }
        w += step;
    }
}

static ETD_INLINE void sum_rows(const etd_float_line *line, const float *w, float sums[], int count) {
    sum_rows_at(line, w, line->row_step, sums, count);
}

/* As sum_rows, if each row has `count` elements. */
static ETD_INLINE void sum_all(const etd_float_line *line, const float *w, float sums[], int count) {
    sum_rows_at(line, w, count, sums, count);
}

/* Computes outputs each of which has a line of adjacent weights. */
static ETD_INLINE void sum_lines(const etd_float_line *line, const float *first, float sums[], int count) {
    const float *x = line->x;
    const float *w[UNROLLED];
    uint32_t left = line->depth;
    WRITE_OUT for (int j = 0; j < count; j++) {
        w[j] = first + j * line->line_step;
    }
    if (count > 1) {
        for (uint32_t rounds = left / UNROLLED; rounds > 0; rounds--) {
            add_lines(&x, w, sums, count);
        }
        left %= UNROLLED;
    }
    for (; left > 0; left--) {
        const float factor = *x++;
        WRITE_OUT for (int j = 0; j < count; j++) {
            sums[j] += factor * *w[j]++;
        }
    }
}

/* Each of these computes groups of outputs while enough are left. It is a function of its own, so that its
 * loops have all registers of a small CPU. */
#define DEFINE_GROUPS(name, sum, size)                                                                       \
    static ETD_NOINLINE void name(const etd_float_line *line, etd_line_place *at) {                          \
        etd_line_place place = *at;                                                                          \
        for (; place.left >= (size); place.left -= (size)) {                                                 \
            float sums[size] = {0};                                                                          \
            sum(line, place.w, sums, size);                                                                  \
            store(line, &place, sums, size);                                                                 \
            place.w += (size) * line->line_step;                                                             \
            place.added += (size) * line->added_step;                                                        \
            place.out += (size);                                                                             \
        }                                                                                                    \
        *at = place;                                                                                         \
    }

DEFINE_GROUPS(sum_eight_rows, sum_rows, 8)
DEFINE_GROUPS(sum_four_rows, sum_rows, 4)
DEFINE_GROUPS(sum_two_rows, sum_rows, 2)
DEFINE_GROUPS(sum_all_two, sum_all, 2)
DEFINE_GROUPS(sum_four_lines, sum_lines, 4)
DEFINE_GROUPS(sum_two_lines, sum_lines, 2)
DEFINE_GROUPS(sum_one, sum_rows, 1)

void etd_multiply_line(const etd_float_line *line) {
    etd_line_place place = {line->w, line->added, line->out, line->count};
    if (line->line_step == 1 && line->row_step == 2) {
        sum_all_two(line, &place);
    } else if (line->line_step == 1) {
        sum_eight_rows(line, &place);
        sum_four_rows(line, &place);
        sum_two_rows(line, &place);
    } else {
        sum_four_lines(line, &place);
        sum_two_lines(line, &place);
    }
    if (place.left > 0) {
        sum_one(line, &place);
    }
}
