/* What the tracer gets to see of values: outputs of instructions and of the method. */
#include <stddef.h>

#include "et_bytes.h"
#include "et_kernel.h"
#include "loader.h"

static et_logged_tensor to_logged(const et_tensor *tensor) {
    return (et_logged_tensor){
        .data = tensor->data,
        .nbytes = tensor->nbytes,
        .sizes = tensor->sizes,
        .strides = tensor->strides,
        .ndim = tensor->ndim,
        .dtype = tensor->dtype,
    };
}

/* A tensor list among the method's values. */
typedef struct {
    const et_value *values;
    const uint8_t *items;
} list_context;

/* An empty tensor stands for a place in the list without one. */
static void tensor_at(const void *context, uint32_t index, et_logged_tensor *tensor) {
    static const int32_t none = 0;
    const list_context *list = context;
    uint32_t number = et_get_u32(list->items + 4u * index);
    if (number != UINT32_MAX && list->values[number].kind == ET_VALUE_TENSOR) {
        *tensor = to_logged(list->values[number].as.tensor);
    } else {
        *tensor = (et_logged_tensor){.sizes = &none, .strides = &none, .ndim = 1};
    }
}

static void log_value(const et_method *method, et_value_role role, const et_value *value) {
    et_logged_value logged = {.kind = ET_LOG_VALUE_NONE};
    list_context list = {method->values, NULL};
    switch (value->kind) {
    case ET_VALUE_INT:
        logged.kind = ET_LOG_VALUE_INT;
        logged.as.integer = value->as.integer;
        break;
    case ET_VALUE_BOOL:
        logged.kind = ET_LOG_VALUE_BOOL;
        logged.as.boolean = value->as.boolean;
        break;
    case ET_VALUE_DOUBLE:
        logged.kind = ET_LOG_VALUE_DOUBLE;
        logged.as.number = value->as.number;
        break;
    case ET_VALUE_TENSOR:
        logged.kind = ET_LOG_VALUE_TENSOR;
        logged.as.tensor = to_logged(value->as.tensor);
        break;
    case ET_VALUE_TENSOR_LIST:
        list.items = value->as.list.items;
        logged.kind = ET_LOG_VALUE_TENSOR_LIST;
        logged.as.list.tensor_at = tensor_at;
        logged.as.list.context = &list;
        logged.as.list.count = value->as.list.count;
        break;
    case ET_VALUE_NONE:
        break;
    default: /* strings and lists of numbers: ETDump cannot say them */
        return;
    }
    (void)et_log_evalue(method->tracer, role, &logged);
}

/* A kernel's last argument is what it returns. Of several tensors that is a list, whose members ExecuTorch
 * logs one by one; an operator whose one output is a list has that twice. */
static void log_kernel(const et_method *method, const et_instruction *instruction) {
    const uint32_t *args = instruction->as.call.args;
    uint32_t count = instruction->as.call.count;
    if (count == 0 || instruction->as.call.kernel->event_name == NULL) {
        return; /* ExecuTorch logs nothing of operators that it does not trace */
    }
    const et_value *result = &method->values[args[count - 1]];
    if (result->kind != ET_VALUE_TENSOR_LIST || (count > 1 && args[count - 2] == args[count - 1])) {
        log_value(method, ET_INTERMEDIATE_OUTPUT, result);
        return;
    }
    for (uint32_t i = 0; i < result->as.list.count; i++) {
        uint32_t number = et_get_u32(result->as.list.items + 4u * i);
        if (number != UINT32_MAX) {
            log_value(method, ET_INTERMEDIATE_OUTPUT, &method->values[number]);
        }
    }
}

/* Of a delegate ExecuTorch logs all arguments, for it does not know which are outputs. */
static void log_delegate(const et_method *method, const et_instruction *instruction) {
    for (uint32_t i = 0; i < instruction->as.delegate.count; i++) {
        log_value(method, ET_INTERMEDIATE_OUTPUT, &method->values[instruction->as.delegate.args[i]]);
    }
}

void et_log_instruction_outputs(const et_method *method, const et_instruction *instruction) {
    if (!et_logs_values(method->tracer, ET_INTERMEDIATE_OUTPUT)) {
        return;
    }
    if (instruction->kind == ET_INSTRUCTION_KERNEL) {
        log_kernel(method, instruction);
    } else if (instruction->kind == ET_INSTRUCTION_DELEGATE) {
        log_delegate(method, instruction);
    }
}

void et_log_method_outputs(const et_method *method) {
    if (!et_logs_values(method->tracer, ET_PROGRAM_OUTPUT)) {
        return;
    }
    for (uint32_t i = 0; i < method->output_count; i++) {
        log_value(method, ET_PROGRAM_OUTPUT, &method->values[method->outputs[i]]);
    }
}
