// SPDX-License-Identifier: Apache-2.0
/* Mean and deviation of float32 numbers. */
#ifndef ETD_MOMENTS_H
#define ETD_MOMENTS_H

#include "walk.h"

typedef struct {
    float mean;
    float squares; /* the sum of squared differences from the mean */
} etd_moments;

/* Returns the sum of the `count` elements of a walk, which is back at its start afterwards. */
float etd_sum(const float *x, etd_walk *over, uint32_t count);

/* Computes the moments of the `count` elements of a walk, which is back at its start afterwards. Uses two
 * passes, because the difference of a mean of squares and a squared mean loses digits. */
etd_moments etd_measure(const float *x, etd_walk *over, uint32_t count);

#endif
