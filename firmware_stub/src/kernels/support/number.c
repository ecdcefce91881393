// SPDX-License-Identifier: Apache-2.0
#include "number.h"

#include <math.h>

#include "cpu.h"
#include "etd_half.h"
#include "walk.h"

bool etd_is_numeric(const etd_tensor *tensor) {
    if (tensor == NULL) {
        return false;
    }
    switch (tensor->dtype) {
    case ETD_BYTE:
    case ETD_CHAR:
    case ETD_SHORT:
    case ETD_INT:
    case ETD_LONG:
    case ETD_HALF:
    case ETD_FLOAT:
    case ETD_DOUBLE:
    case ETD_BOOL:
    case ETD_BFLOAT16:
        return true;
    default:
        return false;
    }
}

bool etd_arg_scalar(const etd_call *call, uint32_t i, etd_number *number) {
    bool truth = false;
    *number = (etd_number){0};
    if (etd_arg_bool(call, i, &truth)) {
        number->integer = truth;
        return true;
    }
    number->is_real = !etd_arg_int64(call, i, &number->integer);
    return !number->is_real || etd_arg_number(call, i, &number->real);
}

/* Returns an element. Where the type is a constant, the switch is gone. */
static ETD_INLINE etd_number load(const uint8_t *data, uint8_t dtype, uint32_t place) {
    const void *typed = data;
    etd_number number = {0};
    switch (dtype) {
    case ETD_CHAR:
        number.integer = ((const int8_t *)typed)[place];
        break;
    case ETD_SHORT:
        number.integer = ((const int16_t *)typed)[place];
        break;
    case ETD_INT:
        number.integer = ((const int32_t *)typed)[place];
        break;
    case ETD_LONG:
        number.integer = ((const int64_t *)typed)[place];
        break;
    case ETD_HALF:
    case ETD_BFLOAT16:
        number.is_real = true;
        number.real = (double)etd_widen(((const uint16_t *)typed)[place], dtype == ETD_BFLOAT16);
        break;
    case ETD_FLOAT:
        number.is_real = true;
        number.real = (double)((const float *)typed)[place];
        break;
    case ETD_DOUBLE:
        number.is_real = true;
        number.real = ((const double *)typed)[place];
        break;
    default: /* uint8 and bool */
        number.integer = data[place];
        break;
    }
    return number;
}

etd_number etd_load_number(const etd_tensor *tensor, uint32_t place) {
    return load(tensor->data, tensor->dtype, place);
}

#define LOAD_NUMBERS(type, kind)                                                                             \
    for (uint32_t i = 0; i < count; i++) {                                                                   \
        numbers->as.kind##s[i] = load(tensor->data, type, place).kind;                                       \
        place += (uint32_t)step;                                                                             \
    }                                                                                                        \
    break;

void etd_load_numbers(const etd_tensor *tensor, uint32_t place, int32_t step, uint32_t count,
                      etd_numbers *numbers) {
    const uint8_t dtype = tensor->dtype;
    count = count < ETD_NUMBERS ? count : ETD_NUMBERS;
    numbers->count = count;
    numbers->is_real = etd_is_real(dtype);
    switch (dtype) {
    case ETD_CHAR:
        LOAD_NUMBERS(ETD_CHAR, integer)
    case ETD_SHORT:
        LOAD_NUMBERS(ETD_SHORT, integer)
    case ETD_INT:
        LOAD_NUMBERS(ETD_INT, integer)
    case ETD_LONG:
        LOAD_NUMBERS(ETD_LONG, integer)
    case ETD_HALF:
    case ETD_BFLOAT16:
        LOAD_NUMBERS(dtype, real)
    case ETD_FLOAT:
        LOAD_NUMBERS(ETD_FLOAT, real)
    case ETD_DOUBLE:
        LOAD_NUMBERS(ETD_DOUBLE, real)
    default:
        LOAD_NUMBERS(ETD_BYTE, integer)
    }
}

static int64_t to_integer(const etd_number *number) {
    const double limit = 9223372036854775808.0; /* 2^63 */
    if (!number->is_real) {
        return number->integer;
    }
    if (number->real >= limit) {
        return INT64_MAX;
    }
    if (number->real < -limit) {
        return INT64_MIN;
    }
    return number->real == number->real ? (int64_t)number->real : 0;
}

void etd_store_number_at(const etd_tensor *tensor, uint32_t place, const etd_number *number) {
    void *data = tensor->data;
    switch (tensor->dtype) {
    case ETD_SHORT:
        ((int16_t *)data)[place] = (int16_t)to_integer(number);
        break;
    case ETD_INT:
        ((int32_t *)data)[place] = (int32_t)to_integer(number);
        break;
    case ETD_LONG:
        ((int64_t *)data)[place] = to_integer(number);
        break;
    case ETD_HALF:
    case ETD_BFLOAT16:
        ((uint16_t *)data)[place] = etd_narrow((float)etd_to_real(*number), tensor->dtype == ETD_BFLOAT16);
        break;
    case ETD_FLOAT: /* not through double, which would round an integer twice */
        ((float *)data)[place] = number->is_real ? (float)number->real : (float)number->integer;
        break;
    case ETD_DOUBLE:
        ((double *)data)[place] = etd_to_real(*number);
        break;
    case ETD_BOOL:
        tensor->data[place] = etd_holds(*number);
        break;
    default: /* int8 and uint8 */
        tensor->data[place] = (uint8_t)to_integer(number);
        break;
    }
}

void etd_fill(const etd_tensor *tensor, etd_number number) {
    const uint32_t nbytes = tensor->nbytes;
    if (nbytes == 0) {
        return;
    }
    etd_store_number_at(tensor, 0, &number);
    uint32_t done = nbytes / etd_numel(tensor);
    while (done < nbytes) {
        const uint32_t more = nbytes - done < done ? nbytes - done : done;
        memcpy(tensor->data + done, tensor->data, more);
        done += more;
    }
}

void etd_store_numbers(const etd_tensor *tensor, uint32_t place, int32_t step, const etd_numbers *numbers) {
    etd_number number = {.is_real = numbers->is_real};
    for (uint32_t i = 0; i < numbers->count; i++) {
        if (number.is_real) {
            number.real = numbers->as.reals[i];
        } else {
            number.integer = numbers->as.integers[i];
        }
        etd_store_number_at(tensor, place, &number);
        place += (uint32_t)step;
    }
}

static bool is_less(etd_number a, etd_number b) {
    return a.is_real || b.is_real ? etd_to_real(a) < etd_to_real(b) : a.integer < b.integer;
}

static bool is_nan(etd_number x) {
    return x.is_real && isnan(x.real);
}

bool etd_exceeds(etd_number a, etd_number b) {
    return is_less(b, a) || is_nan(a);
}

etd_number etd_limit(etd_number number, etd_number bound, bool is_high) {
    const bool exceeds = is_high ? is_less(bound, number) : is_less(number, bound);
    return (exceeds || is_nan(bound)) && !is_nan(number) ? bound : number;
}

bool etd_is_index(const etd_tensor *tensor) {
    return etd_is_type(tensor, ETD_LONG) || etd_is_type(tensor, ETD_INT);
}

/* Returns an element of a tensor that can hold indexes. */
static int64_t load_index(const etd_tensor *tensor, uint32_t place) {
    const void *data = tensor->data;
    return tensor->dtype == ETD_INT ? ((const int32_t *)data)[place] : ((const int64_t *)data)[place];
}

bool etd_are_within(const etd_tensor *tensor, int64_t least, int64_t end) {
    const uint32_t count = etd_numel(tensor);
    for (uint32_t i = 0; i < count; i++) { /* in the order of memory */
        const int64_t integer = load_index(tensor, i);
        if ((uint64_t)integer - (uint64_t)least >= (uint64_t)end - (uint64_t)least) {
            return false;
        }
    }
    return true;
}

uint32_t etd_load_index(const etd_tensor *tensor, uint32_t place, int32_t size) {
    const int64_t index = load_index(tensor, place);
    const uint32_t from_start = (uint32_t)index + (index < 0 ? (uint32_t)size : 0u);
    return (int32_t)index == index && from_start < (uint32_t)size ? from_start : 0u;
}

bool etd_assign(const etd_tensor *from, etd_tensor *to) {
    int32_t strides[ETD_MAX_DIMS];
    etd_walk from_walk = {0};
    etd_walk to_walk = {0};
    if (!etd_broadcast_strides(from, to, strides)) {
        return false;
    }
    for (uint32_t d = 0; d < to->ndim; d++) {
        etd_walk_add(&from_walk, to->sizes[d], strides[d]);
    }
    etd_walk_add_dims(&to_walk, to, to->ndim);
    if (from->dtype == to->dtype) {
        etd_copy_along(from, &from_walk, to, &to_walk);
        return true;
    }
    etd_numbers numbers;
    for (uint32_t left = etd_numel(to); left > 0; left -= numbers.count) {
        const uint32_t from_left = etd_walk_left(&from_walk);
        const uint32_t to_left = etd_walk_left(&to_walk);
        const uint32_t count = from_left < to_left ? from_left : to_left;
        etd_load_numbers(from, from_walk.offset, etd_innermost(&from_walk).stride, count, &numbers);
        etd_store_numbers(to, to_walk.offset, etd_innermost(&to_walk).stride, &numbers);
        etd_walk_skip(&from_walk, numbers.count);
        etd_walk_skip(&to_walk, numbers.count);
    }
    return true;
}
