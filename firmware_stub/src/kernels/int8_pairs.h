/* Elementwise operations of int8 tensors: two, broadcast to the shape of a third. */
#ifndef ET_INT8_PAIRS_H
#define ET_INT8_PAIRS_H

#include "arguments.h"

typedef struct {
    const et_tensor *a;
    const et_tensor *b;
    et_tensor *out;
    int32_t a_strides[ET_MAX_DIMS]; /* along the output's dimensions */
    int32_t b_strides[ET_MAX_DIMS];
} et_int8_pairs;

/* Reads the three tensors; returns why it refuses them, or NULL. */
const char *et_read_int8_pairs(const et_call *call, uint32_t a, uint32_t b, uint32_t out,
                               et_int8_pairs *pairs);

/* Computes one element. */
typedef int8_t (*et_pair_fn)(const void *context, int8_t a, int8_t b);

void et_map_int8_pairs(const et_int8_pairs *pairs, et_pair_fn compute, const void *context);

#endif
