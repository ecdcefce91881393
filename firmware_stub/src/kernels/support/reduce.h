// SPDX-License-Identifier: Apache-2.0
/* Reductions over dimensions: one output element for all elements along them. */
#ifndef ETD_REDUCE_H
#define ETD_REDUCE_H

#include "arguments.h"
#include "walk.h"

/* A reduction. Initialize with the input and {0}. */
typedef struct {
    const etd_tensor *input;
    uint32_t reduced; /* set of dimensions to reduce */
    bool keepdim;     /* keep them with size 1 */
    etd_walk from;    /* input position of each output element */
    etd_walk over;    /* elements of one reduction, in the order of their indexes */
    uint32_t count;   /* of elements per reduction */
} etd_reduction;

/* Reads the dimensions to reduce from argument `i`: an int or a list. None and an empty list mean all. */
bool etd_arg_reduced(const etd_call *call, uint32_t i, etd_reduction *reduction);

/* Resizes the output and plans the walks. Returns false if the output cannot have the sizes. */
bool etd_plan_reduction(etd_reduction *reduction, etd_tensor *out);

/* An element of a reduction. */
typedef struct {
    uint32_t index; /* in the reduction */
    uint32_t place; /* in the input */
} etd_extreme;

/* Returns the first largest or smallest element of the reduction at `from`; NaN is both. */
etd_extreme etd_find_extreme(etd_reduction *reduction, bool is_largest);

/* Computes (input, dim?, keepdim, dtype?, *, out) of float32. If `average`, each sum is divided by the number
 * of its elements. */
const char *etd_run_sum(const etd_call *call, bool average);

/* Computes the mean of all elements: (input, dtype?, *, out). */
const char *etd_run_mean_of_all(const etd_call *call);

#endif
