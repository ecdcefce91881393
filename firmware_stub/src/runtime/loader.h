/* Private to the runtime: turning an ExecutionPlan into a method, piece by piece.
 *
 * All functions report through loader.reader; what they read after a failure is not used. */
#ifndef ET_LOADER_H
#define ET_LOADER_H

#include "arena.h"
#include "et_runtime.h"
#include "flatbuffer.h"

/* A planned buffer. */
typedef struct {
    uint8_t *base;
    uint32_t size;
} et_buffer;

/* The instructions of one chain: method.instructions[first .. first + count). */
struct et_chain {
    uint32_t first;
    uint32_t count;
};

typedef enum {
    ET_INSTRUCTION_KERNEL,
    ET_INSTRUCTION_DELEGATE,
    ET_INSTRUCTION_MOVE,
    ET_INSTRUCTION_JUMP_FALSE,
    ET_INSTRUCTION_FREE,
} et_instruction_kind;

/* An instruction with everything looked up and checked. Numbers of values are below value_count. */
struct et_instruction {
    uint8_t kind;        /* et_instruction_kind */
    et_name scope;       /* such as OPERATOR_CALL */
    et_name kernel_name; /* of the kernel's own event */
    union {
        struct {
            const et_kernel *kernel;
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
    const et_program *program;
    et_method *method;
    et_reader reader;
    et_table plan;
    et_arena arena;
    uint32_t method_allocator; /* its id in the trace */
    et_tensor *tensors;
    uint32_t tensor_count;
    et_buffer *buffers;
    uint32_t buffer_count;
    et_arena unplanned; /* for inputs and outputs that the file has no memory for */
} et_loader;

/* What stands between an operator's name and its overload in a message. */
static inline const char *et_dot(const char *overload) {
    return overload[0] == '\0' ? "" : ".";
}

/* memory.c: lays the method and its planned buffers out in the arena and traces that. */
void et_load_memory(et_loader *loader);

/* tensor.c: fills *tensor from a Tensor table. */
void et_load_tensor(et_loader *loader, et_table table, et_tensor *tensor);

/* The bytes that an input or output needs for which the file has planned no memory; else 0. */
uint32_t et_unplanned_size(et_loader *loader, et_table table);

/* resize.c: strides from sizes and dim_order. */
void et_set_strides(et_tensor *tensor);

/* values.c: counts the tensors among the values; fills method.values. */
uint32_t et_count_tensors(et_loader *loader);
void et_load_values(et_loader *loader);

/* A vector of value numbers, checked and used in place. */
const uint32_t *et_load_value_numbers(et_loader *loader, et_table table, uint32_t number, const char *field,
                                      uint32_t *count);

/* instructions.c: counts the instructions of all chains; fills method.chains and method.instructions. */
uint32_t et_count_instructions(et_loader *loader);
void et_load_instructions(et_loader *loader);

/* log_values.c: logs what an instruction computed, and what the method returned, as far as the tracer wants
 * it. Outside of the instruction's own scopes; Method::execute contains the former, so each value says how
 * long it took. */
void et_log_instruction_outputs(const et_method *method, const et_instruction *instruction);
void et_log_method_outputs(const et_method *method);

#endif
