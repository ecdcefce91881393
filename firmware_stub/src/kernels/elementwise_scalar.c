#include "elementwise.h"
#include "number.h"

/* Whether a number loses nothing as an element of this type, apart from digits as float32. PyTorch would
 * promote the tensor otherwise. */
static bool fits(et_number number, uint8_t dtype) {
    switch (dtype) {
    case ET_FLOAT:
        return true;
    case ET_LONG:
        return !number.is_real;
    case ET_INT:
        return !number.is_real && number.integer >= INT32_MIN && number.integer <= INT32_MAX;
    case ET_BOOL:
        return !number.is_real && (number.integer == 0 || number.integer == 1);
    default:
        return false;
    }
}

const char *et_run_with_scalar(const et_call *call, const et_operation *operation) {
    const et_tensor *self = et_arg_tensor(call, 0);
    _Alignas(8) uint8_t element[8];
    et_tensor other = {.data = element};
    et_number number;
    if (self == NULL) {
        return "no tensor";
    }
    if (!et_arg_scalar(call, 1, &number) || !fits(number, self->dtype)) {
        return "a number that the tensor's type does not hold";
    }
    other.dtype = self->dtype;
    other.nbytes = et_element_size(self->dtype);
    et_store_number(&other, 0, number);
    return et_run_operands(call, operation, self, &other, 2);
}
