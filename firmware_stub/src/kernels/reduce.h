// SPDX-License-Identifier: Apache-2.0
/* One output element for all elements along some dimensions of the input. */
#ifndef ETD_REDUCE_H
#define ETD_REDUCE_H

#include "arguments.h"
#include "walk.h"

/* What is reduced for each output element. Begin with the input and {0}. */
typedef struct {
    const etd_tensor *input;
    uint32_t reduced; /* the set of dimensions that are reduced */
    bool keepdim;     /* as dimensions of one element */
    etd_walk from;    /* from output element to output element, in the input */
    etd_walk over;    /* over the elements of one reduction, in the order of their indexes */
    uint32_t count;   /* of those */
} etd_reduction;

/* Reads the dimensions from argument `i`: one, a list, or none, which like an empty list means all. */
bool etd_arg_reduced(const etd_call *call, uint32_t i, etd_reduction *reduction);

/* Gives the output its sizes and plans the walks; false when it cannot have them. The input is not empty. */
bool etd_plan_reduction(etd_reduction *reduction, etd_tensor *out);

/* Computes (input, dim?, keepdim, dtype?, *, out) of float32, where no dimension means all; each sum is
 * divided by the number of its elements when `average` says so. */
const char *etd_run_sum(const etd_call *call, bool average);

/* Computes the mean of all elements: (input, dtype?, *, out). */
const char *etd_run_mean_of_all(const etd_call *call);

#endif
