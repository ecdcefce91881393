// SPDX-License-Identifier: Apache-2.0
/* Sums over dimensions of a float32 tensor. */
#ifndef ETD_REDUCE_H
#define ETD_REDUCE_H

#include "arguments.h"

/* Computes (input, dim?, keepdim, dtype?, *, out). No dimension means all. If `average`, each sum is divided
 * by the number of its elements. */
const char *etd_run_reduction(const etd_call *call, bool average);

/* Computes the mean of all elements: (input, dtype?, *, out). */
const char *etd_run_mean_of_all(const etd_call *call);

#endif
