// SPDX-License-Identifier: Apache-2.0
/* Elementwise operations of two int8 tensors, broadcast to the shape of a third. */
#ifndef ETD_INT8_PAIRS_H
#define ETD_INT8_PAIRS_H

#include "arguments.h"

typedef struct {
    const etd_tensor *a;
    const etd_tensor *b;
    etd_tensor *out;
    int32_t a_strides[ETD_MAX_DIMS]; /* along the output's dimensions */
    int32_t b_strides[ETD_MAX_DIMS];
} etd_int8_pairs;

/* Reads the three tensors. Returns NULL, or a message if they are not supported. */
const char *etd_read_int8_pairs(const etd_call *call, uint32_t a, uint32_t b, uint32_t out,
                                etd_int8_pairs *pairs);

/* Returns true if no input is broadcast and elements with the same indexes have the same offset in all three.
 */
bool etd_have_one_layout(const etd_int8_pairs *pairs);

/* Computes one element. */
typedef int8_t (*etd_pair_fn)(const void *context, int8_t a, int8_t b);

void etd_map_int8_pairs(const etd_int8_pairs *pairs, etd_pair_fn compute, const void *context);

#endif
