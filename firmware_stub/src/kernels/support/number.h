// SPDX-License-Identifier: Apache-2.0
/* Elements of any type, for kernels that convert types or accept parameters of several types. */
#ifndef ETD_NUMBER_H
#define ETD_NUMBER_H

#include "arguments.h"
#include "cpu.h"

typedef struct {
    bool is_real; /* otherwise an integer or a boolean */
    double real;
    int64_t integer;
} etd_number;

/* Reads a PyTorch scalar: an int, a float or a boolean. */
bool etd_arg_scalar(const etd_call *call, uint32_t i, etd_number *number);

/* Returns true if numbers of this type can be loaded and stored. */
bool etd_is_numeric(const etd_tensor *tensor);

/* Returns true for types of floating-point numbers. */
static inline bool etd_is_real(uint8_t dtype) {
    return dtype == ETD_FLOAT || dtype == ETD_DOUBLE || dtype == ETD_HALF || dtype == ETD_BFLOAT16;
}

/* Returns true if numbers of type `from` may be stored as `to`: PyTorch makes no integer of a real number. */
static inline bool etd_can_cast(uint8_t from, uint8_t to) {
    return etd_is_real(to) || !etd_is_real(from);
}

/* Some elements of a tensor, for loops without a switch or a call per element. */
#define ETD_NUMBERS 8
typedef struct {
    uint32_t count;
    bool is_real;
    union {
        double reals[ETD_NUMBERS];
        int64_t integers[ETD_NUMBERS];
    } as;
} etd_numbers;

/* Loads the element at offset `place`, in elements. */
etd_number etd_load_number(const etd_tensor *tensor, uint32_t place);

/* Loads up to ETD_NUMBERS of `count` elements, `step` apart. */
void etd_load_numbers(const etd_tensor *tensor, uint32_t place, int32_t step, uint32_t count,
                      etd_numbers *numbers);

/* Stores a number, converted as in C. A value too large for an integer is clamped to int64, and NaN becomes
 * 0. */
void etd_store_number_at(const etd_tensor *tensor, uint32_t place, const etd_number *number);

/* As a function inline: a CPU that copies a number right after its parts were stored waits for them. */
static inline void etd_store_number(const etd_tensor *tensor, uint32_t place, etd_number number) {
    etd_store_number_at(tensor, place, &number);
}

/* Stores a number as all elements of the tensor. */
void etd_fill(const etd_tensor *tensor, etd_number number);

/* Stores numbers, `step` apart. */
void etd_store_numbers(const etd_tensor *tensor, uint32_t place, int32_t step, const etd_numbers *numbers);

/* Copies all elements to the same indexes of `to`, broadcast to its shape and converted to its type. Both
 * must be numeric. Returns false if they do not broadcast. */
bool etd_assign(const etd_tensor *from, etd_tensor *to);

/* Returns true if the tensor can hold indexes: int32 or int64. */
bool etd_is_index(const etd_tensor *tensor);

/* Returns true if all integers of the tensor are in least .. end - 1. */
bool etd_are_within(const etd_tensor *tensor, int64_t least, int64_t end);

/* Returns the index at offset `place`, counted from the start of a dimension of `size` elements. Kernels
 * check indexes before they write, but in a corrupt file the output can overlap the indexes: the result is
 * always a valid index. */
uint32_t etd_load_index(const etd_tensor *tensor, uint32_t place, int32_t size);

/* Stores a number; if `accumulate`, the sum of the old and the new one, which wraps. */
static ETD_INLINE void etd_put_number(const etd_tensor *tensor, uint32_t place, etd_number number,
                                      bool accumulate) {
    if (accumulate) {
        const etd_number before = etd_load_number(tensor, place);
        number.real += before.real;
        number.integer = (int64_t)((uint64_t)number.integer + (uint64_t)before.integer);
    }
    etd_store_number(tensor, place, number);
}

/* Returns the bound where the number exceeds it. NaN on either side gives NaN. */
etd_number etd_limit(etd_number number, etd_number bound, bool is_high);

/* Returns true if `a` is larger than `b`, or NaN. */
bool etd_exceeds(etd_number a, etd_number b);

/* Returns true if the number is not zero. */
static inline bool etd_holds(etd_number number) {
    return number.is_real ? number.real != 0.0 : number.integer != 0;
}

static inline double etd_to_real(etd_number number) {
    return number.is_real ? number.real : (double)number.integer;
}

#endif
