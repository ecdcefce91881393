// SPDX-License-Identifier: Apache-2.0
/* Logs outputs of instructions and of the method to the tracer. */
#include <stddef.h>

#include "etd_bytes.h"
#include "etd_kernel.h"
#include "loader.h"

static etd_logged_tensor to_logged(const etd_tensor *tensor) {
    return (etd_logged_tensor){
        .data = tensor->data,
        .nbytes = tensor->nbytes,
        .sizes = tensor->sizes,
        .strides = tensor->strides,
        .ndim = tensor->ndim,
        .dtype = tensor->dtype,
    };
}

/* A tensor list of the method's values. */
typedef struct {
    const etd_value *values;
    const uint8_t *items;
} list_context;

/* An absent tensor in a list is logged as an empty tensor. */
static void tensor_at(const void *context, uint32_t index, etd_logged_tensor *tensor) {
    static const int32_t none = 0;
    const list_context *list = context;
    uint32_t number = etd_get_u32(list->items + 4u * index);
    if (number != UINT32_MAX && list->values[number].kind == ETD_VALUE_TENSOR) {
        *tensor = to_logged(list->values[number].as.tensor);
    } else {
        *tensor = (etd_logged_tensor){.sizes = &none, .strides = &none, .ndim = 1};
    }
}

static void log_value(const etd_method *method, etd_value_role role, const etd_value *value) {
    etd_logged_value logged = {.kind = ETD_LOG_VALUE_NONE};
    list_context list = {method->values, NULL};
    switch (value->kind) {
    case ETD_VALUE_INT:
        logged.kind = ETD_LOG_VALUE_INT;
        logged.as.integer = value->as.integer;
        break;
    case ETD_VALUE_BOOL:
        logged.kind = ETD_LOG_VALUE_BOOL;
        logged.as.boolean = value->as.boolean;
        break;
    case ETD_VALUE_DOUBLE:
        logged.kind = ETD_LOG_VALUE_DOUBLE;
        logged.as.number = value->as.number;
        break;
    case ETD_VALUE_TENSOR:
        logged.kind = ETD_LOG_VALUE_TENSOR;
        logged.as.tensor = to_logged(value->as.tensor);
        break;
    case ETD_VALUE_TENSOR_LIST:
        list.items = value->as.list.items;
        logged.kind = ETD_LOG_VALUE_TENSOR_LIST;
        logged.as.list.tensor_at = tensor_at;
        logged.as.list.context = &list;
        logged.as.list.count = value->as.list.count;
        break;
    case ETD_VALUE_NONE:
        break;
    default: /* strings and lists of numbers: ETDump cannot represent them */
        return;
    }
    (void)etd_log_evalue(method->tracer, role, &logged);
}

/* The last argument of a kernel is its return value. For several tensors it is a list, and ExecuTorch logs
 * each member. An operator with a single list as output has this list twice. */
static void log_kernel(const etd_method *method, const etd_instruction *instruction) {
    const uint32_t *args = instruction->as.call.args;
    uint32_t count = instruction->as.call.count;
    if (count == 0 || instruction->as.call.kernel->event_name == NULL) {
        return; /* ExecuTorch logs no outputs of operators that it does not trace */
    }
    const etd_value *result = &method->values[args[count - 1]];
    if (result->kind != ETD_VALUE_TENSOR_LIST || (count > 1 && args[count - 2] == args[count - 1])) {
        log_value(method, ETD_INTERMEDIATE_OUTPUT, result);
        return;
    }
    for (uint32_t i = 0; i < result->as.list.count; i++) {
        uint32_t number = etd_get_u32(result->as.list.items + 4u * i);
        if (number != UINT32_MAX) {
            log_value(method, ETD_INTERMEDIATE_OUTPUT, &method->values[number]);
        }
    }
}

/* ExecuTorch logs all arguments of a delegate, because it does not know which are outputs. */
static void log_delegate(const etd_method *method, const etd_instruction *instruction) {
    for (uint32_t i = 0; i < instruction->as.delegate.count; i++) {
        log_value(method, ETD_INTERMEDIATE_OUTPUT, &method->values[instruction->as.delegate.args[i]]);
    }
}

void etd_log_instruction_outputs(const etd_method *method, const etd_instruction *instruction) {
    if (!etd_logs_values(method->tracer, ETD_INTERMEDIATE_OUTPUT)) {
        return;
    }
    if (instruction->kind == ETD_INSTRUCTION_KERNEL) {
        log_kernel(method, instruction);
    } else if (instruction->kind == ETD_INSTRUCTION_DELEGATE) {
        log_delegate(method, instruction);
    }
}

void etd_log_method_outputs(const etd_method *method) {
    if (!etd_logs_values(method->tracer, ETD_PROGRAM_OUTPUT)) {
        return;
    }
    for (uint32_t i = 0; i < method->output_count; i++) {
        log_value(method, ETD_PROGRAM_OUTPUT, &method->values[method->outputs[i]]);
    }
}
