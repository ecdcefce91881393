/* Sums over some dimensions of a float32 tensor. */
#ifndef ET_REDUCE_H
#define ET_REDUCE_H

#include "arguments.h"

/* Computes (input, dim?, keepdim, dtype?, *, out), where no dimension means all; each sum is divided by the
 * number of its elements when `average` says so. */
const char *et_run_reduction(const et_call *call, bool average);

/* Computes the mean of all elements: (input, dtype?, *, out). */
const char *et_run_mean_of_all(const et_call *call);

#endif
