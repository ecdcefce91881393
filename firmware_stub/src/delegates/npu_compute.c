// SPDX-License-Identifier: Apache-2.0
/* Computes the commands. */
#include <stddef.h>

#include "../kernels/support/arguments.h"
#include "npu_job.h"

static const char *check_argument(const etd_call *call, const etd_npu_operand *operand) {
    const etd_tensor *tensor = etd_arg_tensor(call, operand->argument);
    if (tensor == NULL || !etd_is_type(tensor, ETD_FLOAT)) {
        return "argument is not a float32 tensor";
    }
    const uint64_t bytes = (uint64_t)operand->rows * operand->columns * sizeof(float);
    if (tensor->nbytes != bytes || !etd_is_contiguous(tensor)) {
        return "argument has not the compiled shape";
    }
    return NULL;
}

const char *etd_npu_check_arguments(const etd_npu_job *job, const etd_call *call) {
    const char *problem = call->count == job->argument_count ? NULL : "wrong number of arguments";
    for (uint32_t i = 0; problem == NULL && i < job->operand_count; i++) {
        const etd_npu_operand operand = etd_npu_operand_at(job, i);
        if (operand.place == ETD_NPU_PLACE_ARGUMENT) {
            problem = check_argument(call, &operand);
        }
    }
    for (uint32_t i = 0; problem == NULL && i < job->command_count; i++) {
        const etd_npu_operand out = etd_npu_operand_at(job, etd_npu_command_at(job, i).out);
        if (out.place == ETD_NPU_PLACE_ARGUMENT && etd_arg_out(call, out.argument) == NULL) {
            problem = "result is a constant";
        }
    }
    return problem;
}

/* Returns the position of an operand; only outputs are written. */
static float *resolve(const etd_npu_job *job, uint32_t index, const etd_call *call) {
    if (index == ETD_NPU_NO_OPERAND) {
        return NULL;
    }
    const etd_npu_operand operand = etd_npu_operand_at(job, index);
    switch (operand.place) {
    case ETD_NPU_PLACE_ARGUMENT:
        return etd_out_floats(etd_arg_tensor(call, operand.argument));
    case ETD_NPU_PLACE_CONSTANT:
        return (float *)(void *)(job->bytes + operand.offset);
    default:
        return (float *)(void *)(job->scratch + operand.offset);
    }
}

static float relu(float value) {
    return value > 0.0f ? value : 0.0f;
}

static float dot(const float *a, const float *b, uint32_t count, float sum) {
    for (uint32_t k = 0; k < count; k++) {
        sum += a[k] * b[k];
    }
    return sum;
}

static float element(const etd_npu_command *command, const float *a, const float *b, uint32_t i) {
    switch (command->op) {
    case ETD_NPU_OP_ADD:
        return a[i] + b[i];
    case ETD_NPU_OP_MULTIPLY:
        return a[i] * b[i];
    default:
        return relu(a[i]);
    }
}

void etd_npu_compute(const etd_npu_job *job, const etd_npu_command *command, const etd_call *call) {
    const etd_npu_operand shape = etd_npu_operand_at(job, command->out);
    const uint32_t terms = etd_npu_operand_at(job, command->a).columns;
    float *out = resolve(job, command->out, call);
    const float *a = resolve(job, command->a, call);
    const float *b = resolve(job, command->b, call);
    const float *c = resolve(job, command->c, call);
    for (uint32_t i = 0; i < shape.rows * shape.columns; i++) {
        float value;
        if (command->op == ETD_NPU_OP_LINEAR) {
            const uint32_t row = i / shape.columns;
            const uint32_t column = i % shape.columns;
            value = dot(a + row * terms, b + column * terms, terms, c == NULL ? 0.0f : c[column]);
        } else {
            value = element(command, a, b, i);
        }
        out[i] = (command->flags & ETD_NPU_FLAG_RELU) != 0 ? relu(value) : value;
    }
}
