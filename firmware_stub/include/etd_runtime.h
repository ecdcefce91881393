// SPDX-License-Identifier: Apache-2.0
/* Loads and executes an ExecuTorch program (.pte) in caller-given memory.
 *
 * A program stays where it is: constants are used in place, so the file must outlive its methods and
 * be aligned to 16 bytes. Nothing in the file is trusted; every offset is checked against its size.
 * All working memory comes from one arena: first what describes the method (values, tensors), then
 * the planned buffers whose sizes the file states, then inputs and outputs for which it plans no memory,
 * then what delegates keep, then the temporary memory that they use in turns.
 *
 * Planned buffers begin as zeros, and mutable buffers with the state that the file has for them. They keep
 * what an execution leaves in them until the next load.
 *
 * These functions are all that the server knows of a runtime, so they are also the seam at which another one
 * is linked in: src/runtime implements them in C, executorch/runtime.cpp on ExecuTorch itself. */
#ifndef ETD_RUNTIME_H
#define ETD_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "etd_error.h"
#include "etd_tracer.h"

/* ExecuTorch's scalar types (schema/scalar_type.fbs), as far as this runtime computes with them. */
enum {
    ETD_BYTE = 0,
    ETD_CHAR = 1,
    ETD_SHORT = 2,
    ETD_INT = 3,
    ETD_LONG = 4,
    ETD_FLOAT = 6,
    ETD_DOUBLE = 7,
    ETD_BOOL = 11,
};

/* Bytes of an element, 0 for types that the runtime does not know. */
static inline uint32_t etd_element_size(uint8_t dtype) {
    switch (dtype) {
    case ETD_BYTE:
    case ETD_CHAR:
    case ETD_BOOL:
        return 1;
    case ETD_SHORT:
        return 2;
    case ETD_INT:
    case ETD_FLOAT:
        return 4;
    case ETD_LONG:
    case ETD_DOUBLE:
        return 8;
    default:
        return 0;
    }
}

#define ETD_MAX_DIMS 8

typedef struct {
    uint8_t *data;         /* NULL until memory is known */
    const uint8_t *bounds; /* in the file: the largest sizes, i32 each; NULL when sizes never change */
    uint32_t nbytes;
    uint32_t capacity;               /* bytes that the data may grow to with the sizes */
    int32_t sizes[ETD_MAX_DIMS];     /* elements per dimension; after loading, the largest */
    int32_t strides[ETD_MAX_DIMS];   /* elements; from the file's dim_order */
    uint8_t dim_order[ETD_MAX_DIMS]; /* outermost first */
    uint8_t ndim;
    uint8_t dtype;
    bool constant;
} etd_tensor;

typedef enum {
    ETD_VALUE_NONE,
    ETD_VALUE_INT,
    ETD_VALUE_BOOL,
    ETD_VALUE_DOUBLE,
    ETD_VALUE_TENSOR,
    ETD_VALUE_STRING,
    ETD_VALUE_INT_LIST,
    ETD_VALUE_DOUBLE_LIST,
    ETD_VALUE_BOOL_LIST,
    ETD_VALUE_TENSOR_LIST,
} etd_value_kind;

typedef struct etd_value etd_value;

/* A value. Lists stay in the file: tensor lists hold i32 indexes into the method's values (UINT32_MAX for
 * none), int lists i64 indexes, because ExecuTorch boxes ints; the others hold plain numbers. Kernels read
 * them through src/kernels/arguments.h. */
struct etd_value {
    uint8_t kind; /* etd_value_kind */
    union {
        int64_t integer;
        double number;
        bool boolean;
        etd_tensor *tensor;
        struct {
            const uint8_t *items; /* in the file, little-endian, not necessarily aligned */
            uint32_t count;
        } list;
        struct {
            const char *bytes;
            uint32_t length;
        } string;
    } as;
};

/* A .pte file, opened and checked. */
typedef struct {
    const uint8_t *data;
    uint32_t size;         /* of the whole file */
    uint32_t program_size; /* of the FlatBuffer, <= size */
    uint32_t segment_base; /* where segments begin */
    uint32_t root;
} etd_program;

/* Checks the identifier ET12, the extended header and the root table. */
etd_status etd_program_open(etd_program *program, const void *data, uint32_t size, etd_error *error);

typedef struct etd_kernel etd_kernel;
typedef struct etd_chain etd_chain;
typedef struct etd_instruction etd_instruction;
typedef struct etd_loaded_delegate etd_loaded_delegate;
typedef struct etd_temporary etd_temporary;

/* Instructions that one execution runs at most, unless method.instruction_budget is set otherwise after
 * loading: a corrupted jump must not hang the board. */
#define ETD_INSTRUCTION_BUDGET 1000000u

/* A method ready to execute. Fields are private to the runtime except where a function says otherwise. */
typedef struct {
    etd_tracer *tracer;
    const char *name; /* in the program; stays when loading fails behind it */
    etd_value *values;
    etd_instruction *instructions; /* of all chains, one chain after the other */
    etd_chain *chains;
    const uint32_t *inputs;  /* indexes into values, in the file */
    const uint32_t *outputs; /* the same */
    uint32_t value_count;
    uint32_t instruction_count;
    uint32_t chain_count;
    /* Called after each instruction, outside its scope; NULL for nothing. Set after loading. */
    void (*between)(void *context);
    void *between_context;
    uint32_t instruction_budget;
    etd_name execute_name;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t method_bytes; /* of the arena, for describing the method */
    uint32_t
        planned_bytes; /* of the arena, for planned buffers, unplanned inputs and outputs, temporary memory */
    etd_loaded_delegate *delegates;
    etd_temporary *temporary; /* NULL without delegates */
    uint32_t delegate_count;
    uint32_t delegate_bytes; /* the part of method_bytes that delegates took, behind the planned buffers */
} etd_method;

/* Loads the method `name` into arena[0..arena_size), which must be aligned to 16 bytes: traces Method::init
 * inside Program::load_method and the arena's allocations into a block "Default" of tracer (may be NULL).
 * Fails when the program has no such method, saying which it has; on an operator without a kernel, naming
 * it; and on too small an arena, with the bytes needed as detail. */
etd_status etd_method_load(etd_method *method, const etd_program *program, const char *name, void *arena,
                           uint32_t arena_size, etd_tracer *tracer, etd_error *error);

/* Lets go of what backends hold for the method: before its arena or *method is used for anything else. Does
 * nothing to a method that is all zeros, could not be loaded, or is unloaded already. */
void etd_method_unload(etd_method *method);

/* Tensors of inputs and outputs, NULL when there is no such one or it is not a tensor in memory. Input data
 * are written through the tensor's data pointer before each execution: planning may reuse their memory. */
etd_tensor *etd_method_input(const etd_method *method, uint32_t index);
etd_tensor *etd_method_output(const etd_method *method, uint32_t index);

/* Gives an input of dynamic shape its sizes for the executions to come; false unless they are within its
 * bounds. Sizes that are an input's already are always right. */
bool etd_method_resize_input(etd_method *method, uint32_t index, const int32_t *sizes);

/* Executes all chains; traces OPERATOR_CALL and native_call_* for each instruction, then
 * Method::execute, into a block "Execute" of its own. */
etd_status etd_method_execute(etd_method *method, etd_error *error);

/* A trace that the runtime itself made, in place of the tracer's log: file 0 is an ETDump as ExecuTorch
 * writes it, file 1 the debug buffer that it refers to. NULL when there is none: always, from this runtime,
 * but not from one that drives ExecuTorch (executorch/runtime.cpp). It stays valid until the next load. */
const void *etd_method_trace(const etd_method *method, uint32_t index, uint32_t *size);

#endif
