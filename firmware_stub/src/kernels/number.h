/* Elements of any type: for kernels that convert between types, or read parameters of several. */
#ifndef ET_NUMBER_H
#define ET_NUMBER_H

#include "arguments.h"

typedef struct {
    bool is_real; /* else an integer or a truth value */
    double real;
    int64_t integer;
} et_number;

/* A PyTorch scalar: an int, a float or a truth value. */
bool et_arg_scalar(const et_call *call, uint32_t i, et_number *number);

/* Whether numbers of this type can be loaded and stored. */
bool et_is_numeric(const et_tensor *tensor);

/* The element at a place in memory, counted in elements. */
et_number et_load_number(const et_tensor *tensor, uint32_t place);

/* Stores a number there, as C converts it to the type; one that is too large for an integer becomes the
 * nearest one of int64, and NaN becomes 0. */
void et_store_number(const et_tensor *tensor, uint32_t place, et_number number);

/* Copies all elements to where they have the same indexes, broadcast to the shape of `to` and converted to
 * its type; false when they do not broadcast. Both are numeric. */
bool et_assign(const et_tensor *from, et_tensor *to);

static inline double et_to_real(et_number number) {
    return number.is_real ? number.real : (double)number.integer;
}

#endif
