// SPDX-License-Identifier: Apache-2.0
#include "moments.h"

float etd_sum_total(const etd_sum *sum) {
    const float *at = sum->sums;
    uint32_t parts = sum->parts;
    for (; (parts & 1u) == 0; parts >>= 1) {
        at++;
    }
    float total = *at;
    while ((parts >>= 1) != 0) {
        at++;
        if ((parts & 1u) != 0) {
            total += *at;
        }
    }
    return total;
}

/* The numbers to add: x, or, if `of_squares`, (x - mean)^2. Constant where it is inlined. */
typedef struct {
    float mean;
    bool of_squares;
} etd_terms;

static const etd_terms plain = {0.0f, false};

static ETD_INLINE float term(float x, etd_terms terms) {
    const float difference = x - terms.mean;
    return terms.of_squares ? difference * difference : x;
}

static ETD_INLINE float add_one_by_one(const float *x, int32_t step, uint32_t count, etd_terms terms) {
    float total = 0.0f;
    for (uint32_t i = 0; i < count; i++) {
        total += term(*x, terms);
        x += step;
    }
    return total;
}

static ETD_INLINE float add_two(const float *x, int32_t step, etd_terms terms) {
    return term(x[0], terms) + term(x[step], terms);
}

static ETD_INLINE float add_four(const float *x, int32_t step, etd_terms terms) {
    const float first = add_two(x, step, terms);
    return first + add_two(x + 2 * step, step, terms);
}

static ETD_INLINE float add_eight(const float *x, int32_t step, etd_terms terms) {
    const float first = add_four(x, step, terms);
    return first + add_four(x + 4 * step, step, terms);
}

static ETD_INLINE float add_line(const float *x, int32_t step, uint32_t count, etd_terms terms) {
    if (count <= ETD_SUM_FEW) {
        return add_one_by_one(x, step, count, terms);
    }
    etd_sum sum;
    sum.parts = 0;
    for (; count >= 8; count -= 8) {
        etd_sum_add(&sum, add_eight(x, step, terms));
        x += 8 * step;
    }
    if (count > 0) {
        etd_sum_add(&sum, add_one_by_one(x, step, count, terms));
    }
    return etd_sum_total(&sum);
}

/* As add_line, with a loop for adjacent numbers. */
static ETD_INLINE float add_any_line(const float *x, int32_t step, uint32_t count, etd_terms terms) {
    return step == 1 ? add_line(x, 1, count, terms) : add_line(x, step, count, terms);
}

static ETD_NOINLINE float add_squares(const float *x, int32_t step, uint32_t count, float mean) {
    return add_any_line(x, step, count, (etd_terms){mean, true});
}

float etd_sum_line(const float *x, int32_t step, uint32_t count) {
    return add_any_line(x, step, count, plain);
}

static float add_line_of(const float *x, etd_walk_run line, etd_terms terms) {
    return terms.of_squares ? add_squares(x, line.stride, line.count, terms.mean)
                            : etd_sum_line(x, line.stride, line.count);
}

static float add_walk(const float *x, etd_walk *over, uint32_t count, etd_terms terms) {
    const etd_walk_run line = etd_innermost(over);
    if (count == 0) {
        return 0.0f;
    }
    if (line.count == count) {
        return add_line_of(x + over->offset, line, terms);
    }
    etd_sum sum;
    sum.parts = 0;
    for (uint32_t left = count; left > 0; left -= line.count) {
        etd_sum_add(&sum, add_line_of(x + over->offset, line, terms));
        etd_walk_next_line(over);
    }
    return etd_sum_total(&sum);
}

float etd_sum_walk(const float *x, etd_walk *over, uint32_t count) {
    return add_walk(x, over, count, plain);
}

float etd_sum_large_rectangle(const float *x, const etd_rectangle *rectangle) {
    etd_sum sum;
    sum.parts = 0;
    for (int32_t row = 0; row < rectangle->rows; row++) {
        const float *line = x + row * rectangle->row_step;
        etd_sum_add(&sum, etd_sum_line(line, rectangle->column_step, (uint32_t)rectangle->columns));
    }
    return etd_sum_total(&sum);
}

etd_moments etd_measure_line(const float *x, uint32_t count) {
    const float mean = etd_sum_line(x, 1, count) / (float)count;
    return (etd_moments){mean, add_squares(x, 1, count, mean)};
}

etd_moments etd_measure(const float *x, etd_walk *over, uint32_t count) {
    const float mean = etd_sum_walk(x, over, count) / (float)count;
    return (etd_moments){mean, add_walk(x, over, count, (etd_terms){mean, true})};
}
