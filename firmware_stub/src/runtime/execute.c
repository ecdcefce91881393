// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

#include "copies.h"
#include "delegates.h"

static etd_status failed(uint32_t index, etd_error *error, const char *message) {
    return etd_fail(error, ETD_LINK_STATUS_KERNEL_FAILED, index, message, NULL);
}

static etd_status call_kernel(etd_method *method, const etd_instruction *instruction, uint32_t index,
                              etd_error *error) {
    const etd_kernel *kernel = instruction->as.call.kernel;
    etd_call call = {method->values, method->value_count, instruction->as.call.args,
                     instruction->as.call.count};
    const char *refusal;
    if (kernel->event_name == NULL) {
        refusal = kernel->run(&call);
    } else {
        etd_event event = etd_start_profiling_interned(method->tracer, instruction->kernel_name,
                                                       ETD_UNSET_CHAIN, ETD_UNSET_HANDLE);
        refusal = kernel->run(&call);
        if (refusal != NULL && kernel->min_args >= ETD_IN_FLOAT32) {
            refusal = etd_run_on_copies(method, kernel, &call, refusal);
        }
        etd_end_profiling(method->tracer, event);
    }
    if (refusal != NULL) {
        const char *const message[] = {
            kernel->name, etd_dot(kernel->overload), kernel->overload, ": ", refusal, NULL};
        return etd_fail_parts(error, ETD_LINK_STATUS_KERNEL_FAILED, index, message);
    }
    return ETD_LINK_STATUS_OK;
}

static etd_status call_delegate(etd_method *method, const etd_instruction *instruction, uint32_t index,
                                etd_error *error) {
    const etd_loaded_delegate *delegate = &method->delegates[instruction->as.delegate.index];
    etd_call call = {method->values, method->value_count, instruction->as.delegate.args,
                     instruction->as.delegate.count};
    const etd_delegate_run run = {method->tracer, method->temporary};
    const char *refusal = delegate->backend->execute(delegate->handle, &call, &run);
    etd_release_temporary(method->temporary);
    if (refusal != NULL) {
        const char *const message[] = {delegate->backend->name, ": ", refusal, NULL};
        return etd_fail_parts(error, ETD_LINK_STATUS_KERNEL_FAILED, index, message);
    }
    return ETD_LINK_STATUS_OK;
}

/* Moves only between values of the same type and size, so that what loading checked stays true. */
static etd_status move(etd_method *method, const etd_instruction *instruction, uint32_t index,
                       etd_error *error) {
    const etd_value *from = &method->values[instruction->as.move.from];
    etd_value *to = &method->values[instruction->as.move.to];
    if (from->kind != to->kind) {
        return failed(index, error, "MoveCall: values of different types");
    }
    if (from->kind == ETD_VALUE_TENSOR &&
        (from->as.tensor->dtype != to->as.tensor->dtype ||
         !etd_resize(to->as.tensor, from->as.tensor->sizes, from->as.tensor->ndim))) {
        return failed(index, error, "MoveCall: tensors of different sizes");
    }
    *to = *from;
    return ETD_LINK_STATUS_OK;
}

/* Reads a condition: a boolean, or a boolean tensor, which is true if all elements are. */
static etd_status read_condition(const etd_value *value, uint32_t index, bool *holds, etd_error *error) {
    if (value->kind == ETD_VALUE_BOOL) {
        *holds = value->as.boolean;
        return ETD_LINK_STATUS_OK;
    }
    if (value->kind != ETD_VALUE_TENSOR || value->as.tensor->dtype != ETD_BOOL ||
        value->as.tensor->data == NULL) {
        return failed(index, error, "JumpFalseCall: condition is not boolean");
    }
    *holds = true;
    for (uint32_t i = 0; i < value->as.tensor->nbytes; i++) {
        *holds = *holds && value->as.tensor->data[i] != 0;
    }
    return ETD_LINK_STATUS_OK;
}

static etd_status run_instruction(etd_method *method, const etd_instruction *instruction, uint32_t index,
                                  uint32_t *next, etd_error *error) {
    bool holds = true;
    etd_status status = ETD_LINK_STATUS_OK;
    switch (instruction->kind) {
    case ETD_INSTRUCTION_KERNEL:
        return call_kernel(method, instruction, index, error);
    case ETD_INSTRUCTION_DELEGATE:
        return call_delegate(method, instruction, index, error);
    case ETD_INSTRUCTION_MOVE:
        return move(method, instruction, index, error);
    case ETD_INSTRUCTION_JUMP_FALSE:
        status = read_condition(&method->values[instruction->as.jump.condition], index, &holds, error);
        *next = holds ? *next : instruction->as.jump.destination;
        return status;
    default: /* FreeCall: planned memory is never freed */
        return ETD_LINK_STATUS_OK;
    }
}

static etd_status run_chain(etd_method *method, uint32_t c, uint32_t *budget, etd_error *error) {
    const etd_chain *chain = &method->chains[c];
    etd_status status = ETD_LINK_STATUS_OK;
    for (uint32_t i = 0, next; i < chain->count && status == ETD_LINK_STATUS_OK; i = next) {
        const etd_instruction *instruction = &method->instructions[chain->first + i];
        if (*budget == 0) {
            return failed(i, error, "instruction budget exceeded; endless loop?");
        }
        *budget -= 1;
        next = i + 1;
        etd_set_chain_debug_handle(method->tracer, (int32_t)c, i);
        etd_event event = etd_start_profiling_interned(method->tracer, instruction->scope, (int32_t)c, i);
        status = run_instruction(method, instruction, i, &next, error);
        etd_end_profiling(method->tracer, event);
        if (status == ETD_LINK_STATUS_OK) {
            etd_log_instruction_outputs(method, instruction);
        }
        if (method->between != NULL) {
            method->between(method->between_context, i);
        }
    }
    return status;
}

etd_status etd_method_execute(etd_method *method, etd_error *error) {
    etd_tracer *tracer = method->tracer;
    etd_status status = ETD_LINK_STATUS_OK;
    uint32_t budget = method->instruction_budget;
    etd_create_event_block(tracer, "Execute");
    etd_event event =
        etd_start_profiling_interned(tracer, method->execute_name, ETD_UNSET_CHAIN, ETD_UNSET_HANDLE);
    if (method->executing != NULL) {
        method->executing(method->executing_context, true);
    }
    for (uint32_t c = 0; c < method->chain_count && status == ETD_LINK_STATUS_OK; c++) {
        status = run_chain(method, c, &budget, error);
    }
    if (method->executing != NULL) {
        method->executing(method->executing_context, false);
    }
    etd_set_chain_debug_handle(tracer, ETD_UNSET_CHAIN, ETD_UNSET_HANDLE);
    etd_end_profiling(tracer, event);
    if (status == ETD_LINK_STATUS_OK) {
        etd_log_method_outputs(method);
    }
    return status;
}
