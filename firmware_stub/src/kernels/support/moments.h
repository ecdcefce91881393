// SPDX-License-Identifier: Apache-2.0
/* Sums, mean and deviation of float32 numbers. Many numbers are added in pairs, and the sums of pairs in
 * pairs, and so on: the error grows with the logarithm of their count, not with the count (N. J. Higham, "The
 * Accuracy of Floating Point Summation", SIAM J. Sci. Comput. 14, 1993), and there are no more additions than
 * one after the other. */
#ifndef ETD_MOMENTS_H
#define ETD_MOMENTS_H

#include "cpu.h"
#include "walk.h"

/* Up to so many numbers are added one after the other. */
#define ETD_SUM_FEW 16u

/* A sum that grows by parts of about the same count. Initialize `parts` with 0. */
typedef struct {
    uint32_t parts;
    float sums[32]; /* sums[i] is of 2^i parts, and valid if bit i of `parts` is set */
} etd_sum;

static ETD_INLINE void etd_sum_add(etd_sum *sum, float part) {
    const float *before = sum->sums;
    float *at = sum->sums;
    for (uint32_t parts = sum->parts; (parts & 1u) != 0; parts >>= 1) {
        part += *before++;
        at++;
    }
    *at = part;
    sum->parts++;
}

/* Returns the sum of all parts, of which there is at least one. */
float etd_sum_total(const etd_sum *sum);

/* Returns the sum of numbers that are `step` apart. */
float etd_sum_line(const float *x, int32_t step, uint32_t count);

/* Returns the sum of the `count` elements of a walk, which is back at its start afterwards. */
float etd_sum_walk(const float *x, etd_walk *over, uint32_t count);

/* A rectangle of an image. */
typedef struct {
    int32_t rows;
    int32_t columns;
    int32_t row_step; /* this and the next are in elements */
    int32_t column_step;
} etd_rectangle;

float etd_sum_large_rectangle(const float *x, const etd_rectangle *rectangle);

/* Returns the sum of the elements of a rectangle, which begins at x. */
static inline float etd_sum_rectangle(const float *x, const etd_rectangle *rectangle) {
    if ((uint32_t)(rectangle->rows * rectangle->columns) > ETD_SUM_FEW) {
        return etd_sum_large_rectangle(x, rectangle);
    }
    float total = 0.0f;
    for (int32_t row = rectangle->rows; row > 0; row--) {
        const float *tap = x;
        for (int32_t column = rectangle->columns; column > 0; column--) {
            total += *tap;
            tap += rectangle->column_step;
        }
        x += rectangle->row_step;
    }
    return total;
}

typedef struct {
    float mean;
    float squares; /* the sum of squared differences from the mean */
} etd_moments;

/* Computes the moments of adjacent numbers. Uses two passes, because the difference of a mean of squares and
 * a squared mean loses digits. */
etd_moments etd_measure_line(const float *x, uint32_t count);

/* As etd_measure_line, for the `count` elements of a walk, which is back at its start afterwards. */
etd_moments etd_measure(const float *x, etd_walk *over, uint32_t count);

#endif
