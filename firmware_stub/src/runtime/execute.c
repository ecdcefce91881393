#include <stddef.h>

#include "delegates.h"

static et_status failed(uint32_t index, et_error *error, const char *message) {
    return et_fail(error, ET_LINK_STATUS_KERNEL_FAILED, index, message, NULL);
}

static et_status call_kernel(et_method *method, const et_instruction *instruction, uint32_t index,
                             et_error *error) {
    const et_kernel *kernel = instruction->as.call.kernel;
    et_call call = {method->values, method->value_count, instruction->as.call.args,
                    instruction->as.call.count};
    const char *refusal;
    if (kernel->event_name == NULL) {
        refusal = kernel->run(&call);
    } else {
        et_event event = et_start_profiling_interned(method->tracer, instruction->kernel_name, ET_UNSET_CHAIN,
                                                     ET_UNSET_HANDLE);
        refusal = kernel->run(&call);
        et_end_profiling(method->tracer, event);
    }
    if (refusal != NULL) {
        const char *const message[] = {
            kernel->name, et_dot(kernel->overload), kernel->overload, ": ", refusal, NULL};
        return et_fail_parts(error, ET_LINK_STATUS_KERNEL_FAILED, index, message);
    }
    return ET_LINK_STATUS_OK;
}

static et_status call_delegate(et_method *method, const et_instruction *instruction, uint32_t index,
                               et_error *error) {
    const et_loaded_delegate *delegate = &method->delegates[instruction->as.delegate.index];
    et_call call = {method->values, method->value_count, instruction->as.delegate.args,
                    instruction->as.delegate.count};
    const et_delegate_run run = {method->tracer, method->temporary};
    const char *refusal = delegate->backend->execute(delegate->handle, &call, &run);
    et_release_temporary(method->temporary);
    if (refusal != NULL) {
        const char *const message[] = {delegate->backend->name, ": ", refusal, NULL};
        return et_fail_parts(error, ET_LINK_STATUS_KERNEL_FAILED, index, message);
    }
    return ET_LINK_STATUS_OK;
}

/* Moves between values of one shape only, so that what was learnt of a value at load stays true. */
static et_status move(et_method *method, const et_instruction *instruction, uint32_t index, et_error *error) {
    const et_value *from = &method->values[instruction->as.move.from];
    et_value *to = &method->values[instruction->as.move.to];
    if (from->kind != to->kind) {
        return failed(index, error, "MoveCall: values of different kinds");
    }
    if (from->kind == ET_VALUE_TENSOR &&
        (from->as.tensor->dtype != to->as.tensor->dtype ||
         !et_resize(to->as.tensor, from->as.tensor->sizes, from->as.tensor->ndim))) {
        return failed(index, error, "MoveCall: tensors of different size");
    }
    *to = *from;
    return ET_LINK_STATUS_OK;
}

/* A condition is a boolean, or a boolean tensor whose elements all hold. */
static et_status read_condition(const et_value *value, uint32_t index, bool *holds, et_error *error) {
    if (value->kind == ET_VALUE_BOOL) {
        *holds = value->as.boolean;
        return ET_LINK_STATUS_OK;
    }
    if (value->kind != ET_VALUE_TENSOR || value->as.tensor->dtype != ET_BOOL ||
        value->as.tensor->data == NULL) {
        return failed(index, error, "JumpFalseCall: condition is not boolean");
    }
    *holds = true;
    for (uint32_t i = 0; i < value->as.tensor->nbytes; i++) {
        *holds = *holds && value->as.tensor->data[i] != 0;
    }
    return ET_LINK_STATUS_OK;
}

static et_status run_instruction(et_method *method, const et_instruction *instruction, uint32_t index,
                                 uint32_t *next, et_error *error) {
    bool holds = true;
    et_status status = ET_LINK_STATUS_OK;
    switch (instruction->kind) {
    case ET_INSTRUCTION_KERNEL:
        return call_kernel(method, instruction, index, error);
    case ET_INSTRUCTION_DELEGATE:
        return call_delegate(method, instruction, index, error);
    case ET_INSTRUCTION_MOVE:
        return move(method, instruction, index, error);
    case ET_INSTRUCTION_JUMP_FALSE:
        status = read_condition(&method->values[instruction->as.jump.condition], index, &holds, error);
        *next = holds ? *next : instruction->as.jump.destination;
        return status;
    default: /* FreeCall: planned memory stays where it is */
        return ET_LINK_STATUS_OK;
    }
}

static et_status run_chain(et_method *method, uint32_t c, uint32_t *budget, et_error *error) {
    const et_chain *chain = &method->chains[c];
    et_status status = ET_LINK_STATUS_OK;
    for (uint32_t i = 0, next; i < chain->count && status == ET_LINK_STATUS_OK; i = next) {
        const et_instruction *instruction = &method->instructions[chain->first + i];
        if (*budget == 0) {
            return failed(i, error, "instruction budget used up: endless jump?");
        }
        *budget -= 1;
        next = i + 1;
        et_set_chain_debug_handle(method->tracer, (int32_t)c, i);
        et_event event = et_start_profiling_interned(method->tracer, instruction->scope, (int32_t)c, i);
        status = run_instruction(method, instruction, i, &next, error);
        et_end_profiling(method->tracer, event);
        if (status == ET_LINK_STATUS_OK) {
            et_log_instruction_outputs(method, instruction);
        }
        if (method->between != NULL) {
            method->between(method->between_context);
        }
    }
    return status;
}

et_status et_method_execute(et_method *method, et_error *error) {
    et_tracer *tracer = method->tracer;
    et_status status = ET_LINK_STATUS_OK;
    uint32_t budget = method->instruction_budget;
    et_create_event_block(tracer, "Execute");
    et_event event =
        et_start_profiling_interned(tracer, method->execute_name, ET_UNSET_CHAIN, ET_UNSET_HANDLE);
    for (uint32_t c = 0; c < method->chain_count && status == ET_LINK_STATUS_OK; c++) {
        status = run_chain(method, c, &budget, error);
    }
    et_set_chain_debug_handle(tracer, ET_UNSET_CHAIN, ET_UNSET_HANDLE);
    et_end_profiling(tracer, event);
    if (status == ET_LINK_STATUS_OK) {
        et_log_method_outputs(method);
    }
    return status;
}
