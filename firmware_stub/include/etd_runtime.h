// SPDX-License-Identifier: Apache-2.0
/* Loads and executes an ExecuTorch program (.pte) in memory given by the caller.
 *
 * The program is used in place: constants are read from the file, so the file must be aligned to 16 bytes and
 * must outlive its methods. Nothing in the file is trusted; every offset is checked against the file size.
 *
 * All working memory comes from one arena, in this order: the description of the method (values, tensors),
 * the planned buffers, inputs and outputs without planned memory, copies of float16 tensors as float32,
 * memory that delegates keep, and temporary memory shared by the delegates.
 *
 * Loading fills planned buffers with zeros and mutable buffers with their initial state from the file. Both
 * keep their contents between executions until the next load.
 *
 * The server uses a runtime only through this header. src/runtime implements it in C, executorch/runtime.cpp
 * on ExecuTorch. */
#ifndef ETD_RUNTIME_H
#define ETD_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "etd_error.h"
#include "etd_tracer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ExecuTorch's scalar types (schema/scalar_type.fbs) that this runtime supports. */
enum {
    ETD_BYTE = 0,
    ETD_CHAR = 1,
    ETD_SHORT = 2,
    ETD_INT = 3,
    ETD_LONG = 4,
    ETD_HALF = 5, /* this and ETD_BFLOAT16 are only stored: kernels compute with float32 */
    ETD_FLOAT = 6,
    ETD_DOUBLE = 7,
    ETD_BOOL = 11,
    ETD_BFLOAT16 = 15,
};

/* Returns the size of an element in bytes, or 0 for an unsupported type. */
static inline uint32_t etd_element_size(uint8_t dtype) {
    switch (dtype) {
    case ETD_BYTE:
    case ETD_CHAR:
    case ETD_BOOL:
        return 1;
    case ETD_SHORT:
    case ETD_HALF:
    case ETD_BFLOAT16:
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

/* Returns the size of an element of any type of whole bytes, as another runtime may have it; 0 if unknown. */
static inline uint32_t etd_stored_size(uint8_t dtype) {
    switch (dtype) {
    case 27: /* uint16 */
        return 2;
    case 28: /* uint32 */
        return 4;
    case 29: /* uint64 */
        return 8;
    default:
        return etd_element_size(dtype);
    }
}

#define ETD_MAX_DIMS 8

/* A tensor: its layout and where its data is. */
typedef struct {
    uint8_t *data;         /* NULL until memory is assigned */
    const uint8_t *bounds; /* upper bound of each size, i32 in the file; NULL for a static shape */
    uint32_t nbytes;
    uint32_t capacity;               /* bytes available to the data as the sizes grow */
    int32_t sizes[ETD_MAX_DIMS];     /* elements per dimension; the upper bounds after loading */
    int32_t strides[ETD_MAX_DIMS];   /* in elements; from the file's dim_order */
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

/* A value. Lists stay in the file. Tensor lists hold i32 indexes into the method's values (UINT32_MAX for
 * None). Int lists hold i64 indexes, because ExecuTorch boxes integers. Other lists hold plain numbers.
 * Kernels read lists through src/kernels/support/arguments.h. */
struct etd_value {
    uint8_t kind; /* etd_value_kind */
    union {
        int64_t integer;
        double number;
        bool boolean;
        etd_tensor *tensor;
        struct {
            const uint8_t *items; /* in the file, little-endian, unaligned */
            uint32_t count;
        } list;
        struct {
            const char *bytes;
            uint32_t length;
        } string;
    } as;
};

/* A .pte file that has been opened and checked. Fields are private. */
typedef struct {
    const uint8_t *data;
    uint32_t size;         /* of the whole file */
    uint32_t program_size; /* of the FlatBuffer, <= size */
    uint32_t segment_base; /* start of the segments */
    uint32_t root;
} etd_program;

/* Opens a program: checks the identifier ET12, the extended header and the root table. `data` must be aligned
 * to 16 bytes and must outlive the program and its methods. Fails with BAD_PROGRAM; the detail is the offset
 * in the file. */
etd_status etd_program_open(etd_program *program, const void *data, uint32_t size, etd_error *error);

typedef struct etd_kernel etd_kernel;
typedef struct etd_chain etd_chain;
typedef struct etd_instruction etd_instruction;
typedef struct etd_loaded_delegate etd_loaded_delegate;
typedef struct etd_temporary etd_temporary;

/* Default for etd_method.instruction_budget: the most instructions that one execution may run. It stops a
 * program with a corrupted jump from running forever. */
#define ETD_INSTRUCTION_BUDGET 1000000u

/* A loaded method. Fields are private, except `between`, `executing`, their contexts and
 * `instruction_budget`, which the caller may set after loading. */
typedef struct {
    etd_tracer *tracer;
    const char *name; /* in the program; still valid if loading fails later */
    etd_value *values;
    etd_instruction *instructions; /* of all chains, in order */
    etd_chain *chains;
    const uint32_t *inputs;  /* indexes into values, in the file */
    const uint32_t *outputs; /* as inputs */
    uint32_t value_count;
    uint32_t instruction_count;
    uint32_t chain_count;
    /* Called after each instruction, whose place in its chain it is told, outside its scope. May be NULL. */
    void (*between)(void *context, uint32_t instruction);
    void *between_context;
    uint32_t instruction_budget;
    etd_name execute_name;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t method_bytes;  /* arena bytes for the description of the method */
    uint32_t planned_bytes; /* arena bytes for planned buffers, unplanned inputs and outputs, and temporary
                               memory */
    etd_loaded_delegate *delegates;
    etd_temporary *temporary; /* NULL without delegates */
    uint32_t delegate_count;
    uint32_t delegate_bytes; /* the part of method_bytes that delegates took after the planned buffers */
    /* Called with true after the start of Method::execute and before its first instruction, and with false
     * after its last instruction and before its end. May be NULL. ExecuTorch's own runtime does not call it.
     */
    void (*executing)(void *context, bool begins);
    void *executing_context;
    uint8_t *copies; /* float32 copies of tensors of 16 bits, during one call of a kernel; NULL without */
    uint32_t copies_bytes; /* the part of planned_bytes for them */
} etd_method;

/* Loads the method `name` into arena[0..arena_size). The arena must be aligned to 16 bytes and belongs to the
 * method until etd_method_unload. `tracer` may be NULL.
 *
 * Traces Program::load_method, Method::init and the arena's allocations in a block "Default".
 *
 * Fails with NO_METHOD (the message names the methods of the program), UNSUPPORTED_OPERATOR (the message
 * names the operator), OUT_OF_MEMORY (the detail is the arena size needed in bytes), BAD_PROGRAM,
 * UNSUPPORTED_FEATURE, or BAD_REQUEST for an unaligned arena. */
etd_status etd_method_load(etd_method *method, const etd_program *program, const char *name, void *arena,
                           uint32_t arena_size, etd_tracer *tracer, etd_error *error);

/* Releases what backends hold for the method. Call it before the arena or *method is reused. Safe on a method
 * that is zeroed, failed to load or is already unloaded. */
void etd_method_unload(etd_method *method);

/* Returns the tensor of an input or output, or NULL if `index` is out of range or the value is not a tensor
 * in memory. Write inputs through the tensor's data pointer before each execution, because their memory may
 * be reused during an execution. */
etd_tensor *etd_method_input(const etd_method *method, uint32_t index);
etd_tensor *etd_method_output(const etd_method *method, uint32_t index);

/* Sets the sizes of a dynamic input for later executions. Returns false if they exceed its bounds. For a
 * static input only its own sizes are accepted. */
bool etd_method_resize_input(etd_method *method, uint32_t index, const int32_t *sizes);

/* Executes all chains. Traces OPERATOR_CALL and native_call_* for each instruction, then Method::execute, in
 * a new block "Execute". Fails with KERNEL_FAILED; the detail is the instruction. */
etd_status etd_method_execute(etd_method *method, etd_error *error);

/* Returns a trace made by the runtime itself instead of the tracer's log, and stores its size in *size: index
 * 0 is an ETDump file, index 1 its debug buffer. Returns NULL if there is none. Only executorch/runtime.cpp
 * makes such traces. The bytes stay valid until the next load. */
const void *etd_method_trace(const etd_method *method, uint32_t index, uint32_t *size);

/* Returns the number of kernels that are linked with the runtime. */
uint32_t etd_operator_count(void);

/* Names of the runtime and of its kernel library for HELLO, such as "ExecuTorch 1.5.1" and "CMSIS-NN".
 * Numbers of different kernel libraries are not compared. */
extern const char etd_runtime_name[];
extern const char etd_kernel_library[];

#ifdef __cplusplus
}
#endif

#endif
