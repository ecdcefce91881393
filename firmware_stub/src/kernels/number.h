// SPDX-License-Identifier: Apache-2.0
/* Elements of any type: for kernels that convert between types, or read parameters of several. */
#ifndef ETD_NUMBER_H
#define ETD_NUMBER_H

#include "arguments.h"

typedef struct {
    bool is_real; /* else an integer or a truth value */
    double real;
    int64_t integer;
} etd_number;

/* A PyTorch scalar: an int, a float or a truth value. */
bool etd_arg_scalar(const etd_call *call, uint32_t i, etd_number *number);

/* Whether numbers of this type can be loaded and stored. */
bool etd_is_numeric(const etd_tensor *tensor);

/* The element at a place in memory, counted in elements. */
etd_number etd_load_number(const etd_tensor *tensor, uint32_t place);

/* Stores a number there, as C converts it to the type; one that is too large for an integer becomes the
 * nearest one of int64, and NaN becomes 0. */
void etd_store_number(const etd_tensor *tensor, uint32_t place, etd_number number);

/* Copies all elements to where they have the same indexes, broadcast to the shape of `to` and converted to
 * its type; false when they do not broadcast. Both are numeric. */
bool etd_assign(const etd_tensor *from, etd_tensor *to);

/* Whether it holds indexes: int32 or int64. */
bool etd_is_index(const etd_tensor *tensor);

/* Whether all its integers are at least `least` and less than `end`. */
bool etd_are_within(const etd_tensor *tensor, int64_t least, int64_t end);

static inline double etd_to_real(etd_number number) {
    return number.is_real ? number.real : (double)number.integer;
}

#endif
