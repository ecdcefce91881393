// SPDX-License-Identifier: Apache-2.0
#include "elementwise.h"
#include "number.h"

/* Returns true if a number fits this element type; floats may round it. */
static bool fits(etd_number number, uint8_t dtype) {
    switch (dtype) {
    case ETD_FLOAT:
    case ETD_DOUBLE:
    case ETD_HALF:
    case ETD_BFLOAT16:
        return true;
    case ETD_LONG:
        return !number.is_real;
    case ETD_INT:
        return !number.is_real && number.integer >= INT32_MIN && number.integer <= INT32_MAX;
    case ETD_BOOL:
        return !number.is_real && (number.integer == 0 || number.integer == 1);
    case ETD_CHAR:
        return !number.is_real && number.integer >= INT8_MIN && number.integer <= INT8_MAX;
    case ETD_SHORT:
        return !number.is_real && number.integer >= INT16_MIN && number.integer <= INT16_MAX;
    case ETD_BYTE:
        return !number.is_real && number.integer >= 0 && number.integer <= UINT8_MAX;
    default:
        return false;
    }
}

/* Returns the type in which a number meets elements of a tensor: theirs, if it fits. */
static uint8_t operand_type(etd_number number, uint8_t dtype) {
    if (fits(number, dtype)) {
        return dtype;
    }
    return number.is_real ? ETD_FLOAT : ETD_LONG;
}

const char *etd_arg_operand(const etd_call *call, uint32_t i, const etd_tensor *tensor,
                            etd_scalar_operand *operand) {
    etd_number number;
    if (tensor == NULL) {
        return "not a tensor";
    }
    if (!etd_arg_scalar(call, i, &number)) {
        return "not a number";
    }
    operand->tensor = (etd_tensor){.data = operand->element, .dtype = operand_type(number, tensor->dtype)};
    operand->tensor.nbytes = etd_element_size(operand->tensor.dtype);
    etd_store_number(&operand->tensor, 0, number);
    return NULL;
}

const char *etd_run_with_scalar(const etd_call *call, const etd_operation *operation) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    etd_scalar_operand other;
    const char *refusal = etd_arg_operand(call, 1, self, &other);
    return refusal != NULL ? refusal : etd_run_operands(call, operation, self, &other.tensor, 2);
}
