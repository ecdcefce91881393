// SPDX-License-Identifier: Apache-2.0
/* Private to the runtime: turns an ExecutionPlan into a method.
 *
 * All functions report failures through loader.reader. Values read after a failure are not used. */
#ifndef ETD_LOADER_H
#define ETD_LOADER_H

#include "arena.h"
#include "etd_runtime.h"
#include "flatbuffer.h"

/* A planned buffer. */
typedef struct {
    uint8_t *base;
    uint32_t size;
} etd_buffer;

/* The instructions of one chain: method.instructions[first .. first + count). */
struct etd_chain {
    uint32_t first;
    uint32_t count;
};

typedef enum {
    ETD_INSTRUCTION_KERNEL,
    ETD_INSTRUCTION_DELEGATE,
    ETD_INSTRUCTION_MOVE,
    ETD_INSTRUCTION_JUMP_FALSE,
    ETD_INSTRUCTION_FREE,
} etd_instruction_kind;

/* An instruction, resolved and checked. Value numbers are below value_count. */
struct etd_instruction {
    uint8_t kind;         /* etd_instruction_kind */
    etd_name scope;       /* name such as OPERATOR_CALL */
    etd_name kernel_name; /* of the kernel's own event */
    union {
        struct {
            const etd_kernel *kernel;
            const uint32_t *args; /* in the file */
            uint32_t count;
        } call;
        struct {
            uint32_t index; /* of the delegate */
            uint32_t count;
            const uint32_t *args; /* in the file */
        } delegate;
        struct {
            uint32_t from;
            uint32_t to;
        } move;
        struct {
            uint32_t condition;
            uint32_t destination; /* at most the chain's count, which ends the chain */
        } jump;
    } as;
};

typedef struct {
    const etd_program *program;
    etd_method *method;
    etd_reader reader;
    etd_table plan;
    etd_arena arena;
    uint32_t method_allocator; /* its id in the trace */
    etd_tensor *tensors;
    uint32_t tensor_count;
    etd_buffer *buffers;
    uint32_t buffer_count;
    etd_arena unplanned; /* for inputs and outputs without planned memory */
} etd_loader;

/* Returns the separator between an operator's name and its overload in a message. */
static inline const char *etd_dot(const char *overload) {
    return overload[0] == '\0' ? "" : ".";
}

/* memory.c: places the method and its planned buffers in the arena and traces the allocations. */
void etd_load_memory(etd_loader *loader);

/* tensor.c: fills in *tensor from a Tensor table. */
void etd_load_tensor(etd_loader *loader, etd_table table, etd_tensor *tensor);

/* Returns the bytes needed by an input or output without planned memory, otherwise 0. */
uint32_t etd_unplanned_size(etd_loader *loader, etd_table table);

/* resize.c: computes strides from sizes and dim_order. */
void etd_set_strides(etd_tensor *tensor);

/* load_values.c: counts the tensors among the values; fills in method.values. */
uint32_t etd_count_tensors(etd_loader *loader);
void etd_load_values(etd_loader *loader);

/* Returns a checked vector of value numbers in the file, and its length in *count. */
const uint32_t *etd_load_value_numbers(etd_loader *loader, etd_table table, uint32_t number,
                                       const char *field, uint32_t *count);

/* instructions.c: counts the instructions of all chains; fills in method.chains and method.instructions. */
uint32_t etd_count_instructions(etd_loader *loader);
void etd_load_instructions(etd_loader *loader);

/* log_values.c: logs the outputs of an instruction and of the method, as selected in the tracer. They are
 * logged outside the instruction's own scopes. Method::execute includes the time for instruction outputs, so
 * each logged value has its own start and end time. */
void etd_log_instruction_outputs(const etd_method *method, const etd_instruction *instruction);
void etd_log_method_outputs(const etd_method *method);

#endif
