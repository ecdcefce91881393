// SPDX-License-Identifier: Apache-2.0
/* Sums of float32 products: the work of convolutions and of matrix products.
 *
 * Every vector of `a` is multiplied with every vector of `b`; the elements of a vector are visited by up to
 * three nested loops. Outputs are computed in groups that share loads, but each sum is its own and adds its
 * products one after the other. So the result does not depend on the groups: it has the bits of the simple
 * loop. */
#ifndef ETD_FLOAT_PRODUCTS_H
#define ETD_FLOAT_PRODUCTS_H

#include <stdint.h>

#define ETD_SUM_LOOPS 3

/* One loop over the elements of the vectors, and the distances between these in memory. */
typedef struct {
    int32_t count;
    int32_t a_step;
    int32_t b_step;
} etd_sum_loop;

/* Vectors at equal distances. The other steps are those between the outputs, and between the numbers added
 * to them. */
typedef struct {
    int32_t count;
    int32_t step;
    int32_t out_step;
    int32_t added_step;
} etd_float_row;

/* The same products again, elsewhere in memory. */
typedef struct {
    int32_t count;
    int32_t a_step;
    int32_t b_step;
    int32_t out_step;
    int32_t added_step;
} etd_float_batch;

typedef struct {
    const float *a;
    const float *b;
    float *out;
    const float *added; /* NULL: out = sum; otherwise out = alpha * sum + beta * added */
    float alpha;
    float beta;
    etd_float_row a_row;
    etd_float_row b_rows;    /* rows of vectors */
    etd_float_row b_columns; /* the vectors of a row */
    etd_float_batch batch;
    etd_sum_loop
        loops[ETD_SUM_LOOPS]; /* set by etd_set_sum_loops; an outer step is from the end of the loop in it */
} etd_float_products;

/* Returns the step over `count` elements. It may wrap where there is only one element, and no step. */
static inline int32_t etd_scale_step(int32_t step, int32_t count) {
    return (int32_t)((uint32_t)step * (uint32_t)count);
}

/* Sets the loops over the elements of the vectors; the last one is the innermost. Loops over adjacent parts
 * become one. */
void etd_set_sum_loops(etd_float_products *products, const etd_sum_loop loops[ETD_SUM_LOOPS]);

/* Computes all outputs, and changes the description. Uses up to 800 bytes of stack. */
void etd_compute_products(etd_float_products *products);

#endif
