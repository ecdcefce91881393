// SPDX-License-Identifier: Apache-2.0
/* Elementwise operations: two tensors broadcast to the shape of a third, or one mapped to another. */
#ifndef ETD_ELEMENTWISE_H
#define ETD_ELEMENTWISE_H

#include "arguments.h"

/* A line of elements. Element i of each tensor is i steps behind its pointer. */
typedef struct {
    const uint8_t *a;
    const uint8_t *b;
    uint8_t *out;
    uint32_t count;
    uint32_t a_step; /* in elements, as the others */
    uint32_t b_step;
    uint32_t out_step;
} etd_line;

/* The operators' alpha, in the type of the computation; integers modulo 2^64. */
typedef struct {
    float real;
    uint64_t integer;
} etd_alpha;

typedef void (*etd_line_fn)(const etd_line *line, const etd_alpha *alpha);

/* Defines an etd_line_fn: `expression` computes an element from a, b (both `type`) and alpha. Each gets a
 * loop of its own, because on a CPU with an FPU a call per element would cost more than the arithmetic. */
#define ETD_LINE_FN(name, type, expression) ETD_LINE_FN_TO(name, type, type, expression)

/* The same for elements of another type, such as truth values. */
#define ETD_LINE_FN_TO(name, type, out_type, expression)                                                     \
    static void name(const etd_line *line, const etd_alpha *alpha) {                                         \
        const type *a_at = (const type *)(const void *)line->a;                                              \
        const type *b_at = (const type *)(const void *)line->b;                                              \
        out_type *out_at = (out_type *)(void *)line->out; /* NOLINT(bugprone-macro-parentheses): a type */   \
        (void)alpha;                                                                                         \
        for (uint32_t i = 0; i < line->count; i++) {                                                         \
            const type a = a_at[i * line->a_step];                                                           \
            const type b = b_at[i * line->b_step];                                                           \
            (void)b; /* operations of one tensor have no use for it */                                       \
            out_at[i * line->out_step] = (expression);                                                       \
        }                                                                                                    \
    }

/* An operation for each type of element; NULL where it has none. Signed integers are computed as unsigned
 * ones: they wrap like PyTorch's, which signed ones must not in C. */
typedef struct {
    etd_line_fn floats;
    etd_line_fn int32s;
    etd_line_fn int64s;
    etd_line_fn bools;
    etd_line_fn bytes; /* of int8 and uint8, when it is the same for both */
    bool has_alpha;    /* as the argument before the output */
    bool gives_truth;  /* the output is bool */
} etd_operation;

/* Initializes those of numbers by functions called `name`_floats and so on. */
#define ETD_NUMBER_FNS(name) .floats = name##_floats, .int32s = name##_int32s, .int64s = name##_int64s

/* Computes (self, *, out). */
const char *etd_run_unary(const etd_call *call, const etd_operation *operation);

/* Computes (self, other, *, out), or (self, other, *, alpha, out). */
const char *etd_run_binary(const etd_call *call, const etd_operation *operation);

/* The same where other is a number of a type that self can hold. */
const char *etd_run_with_scalar(const etd_call *call, const etd_operation *operation);

/* A number as a tensor without dimensions. It stays where it is. */
typedef struct {
    _Alignas(8) uint8_t element[8];
    etd_tensor tensor;
} etd_scalar_operand;

/* Reads such a number from argument 1, for a tensor of whose type it must be an element. Returns why it
 * refuses, or NULL. */
const char *etd_arg_operand(const etd_call *call, const etd_tensor *self, etd_scalar_operand *other);

/* What these have in common: the tensors are known, and arguments go on at `next`. */
const char *etd_run_operands(const etd_call *call, const etd_operation *operation, const etd_tensor *self,
                             const etd_tensor *other, uint32_t next);

/* Computes one float32 element. */
typedef float (*etd_map_fn)(float x, const float *parameters);

/* Maps each element of argument 0 to the same place of argument `out`. */
const char *etd_run_map(const etd_call *call, uint32_t out, etd_map_fn map, const float *parameters);

/* The same with min(max(x, low), high), where NaN stays NaN. */
const char *etd_run_clamp(const etd_call *call, uint32_t out, float low, float high);

#endif
