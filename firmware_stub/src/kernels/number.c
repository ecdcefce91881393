#include "number.h"

#include "walk.h"

bool et_is_numeric(const et_tensor *tensor) {
    if (tensor == NULL) {
        return false;
    }
    switch (tensor->dtype) {
    case ET_BYTE:
    case ET_CHAR:
    case ET_SHORT:
    case ET_INT:
    case ET_LONG:
    case ET_FLOAT:
    case ET_DOUBLE:
    case ET_BOOL:
        return true;
    default:
        return false;
    }
}

bool et_arg_scalar(const et_call *call, uint32_t i, et_number *number) {
    bool truth = false;
    *number = (et_number){0};
    if (et_arg_bool(call, i, &truth)) {
        number->integer = truth;
        return true;
    }
    number->is_real = !et_arg_int64(call, i, &number->integer);
    return !number->is_real || et_arg_number(call, i, &number->real);
}

et_number et_load_number(const et_tensor *tensor, uint32_t place) {
    const void *data = tensor->data;
    et_number number = {0};
    switch (tensor->dtype) {
    case ET_CHAR:
        number.integer = ((const int8_t *)data)[place];
        break;
    case ET_SHORT:
        number.integer = ((const int16_t *)data)[place];
        break;
    case ET_INT:
        number.integer = ((const int32_t *)data)[place];
        break;
    case ET_LONG:
        number.integer = ((const int64_t *)data)[place];
        break;
    case ET_FLOAT:
        number.is_real = true;
        number.real = (double)((const float *)data)[place];
        break;
    case ET_DOUBLE:
        number.is_real = true;
        number.real = ((const double *)data)[place];
        break;
    default: /* uint8 and bool */
        number.integer = tensor->data[place];
        break;
    }
    return number;
}

static int64_t to_integer(et_number number) {
    const double limit = 9223372036854775808.0; /* 2^63 */
    if (!number.is_real) {
        return number.integer;
    }
    if (number.real >= limit) {
        return INT64_MAX;
    }
    if (number.real < -limit) {
        return INT64_MIN;
    }
    return number.real == number.real ? (int64_t)number.real : 0;
}

void et_store_number(const et_tensor *tensor, uint32_t place, et_number number) {
    void *data = tensor->data;
    switch (tensor->dtype) {
    case ET_SHORT:
        ((int16_t *)data)[place] = (int16_t)to_integer(number);
        break;
    case ET_INT:
        ((int32_t *)data)[place] = (int32_t)to_integer(number);
        break;
    case ET_LONG:
        ((int64_t *)data)[place] = to_integer(number);
        break;
    case ET_FLOAT: /* not by way of double, which would round an integer twice */
        ((float *)data)[place] = number.is_real ? (float)number.real : (float)number.integer;
        break;
    case ET_DOUBLE:
        ((double *)data)[place] = et_to_real(number);
        break;
    case ET_BOOL:
        tensor->data[place] = number.is_real ? number.real != 0.0 : number.integer != 0;
        break;
    default: /* int8 and uint8 */
        tensor->data[place] = (uint8_t)to_integer(number);
        break;
    }
}

bool et_assign(const et_tensor *from, et_tensor *to) {
    int32_t strides[ET_MAX_DIMS];
    et_walk from_walk = {0};
    et_walk to_walk = {0};
    if (!et_broadcast_strides(from, to, strides)) {
        return false;
    }
    for (uint32_t d = 0; d < to->ndim; d++) {
        et_walk_add(&from_walk, to->sizes[d], strides[d]);
    }
    et_walk_add_dims(&to_walk, to, to->ndim);
    if (from->dtype == to->dtype) {
        et_copy_along(from, &from_walk, to, &to_walk);
        return true;
    }
    const uint32_t numel = et_numel(to);
    for (uint32_t i = 0; i < numel; i++) {
        et_store_number(to, to_walk.offset, et_load_number(from, from_walk.offset));
        et_walk_next(&from_walk);
        et_walk_next(&to_walk);
    }
    return true;
}
