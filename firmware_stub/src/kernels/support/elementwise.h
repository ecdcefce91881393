// SPDX-License-Identifier: Apache-2.0
/* Elementwise operations: two tensors broadcast to the shape of a third, or one tensor mapped to another. */
#ifndef ETD_ELEMENTWISE_H
#define ETD_ELEMENTWISE_H

#include "number.h"

/* A line of elements. Element i of a tensor is i steps after its pointer. */
typedef struct {
    const uint8_t *a;
    const uint8_t *b;
    uint8_t *out;
    uint32_t count;
    uint32_t a_step; /* this and the other steps are in elements */
    uint32_t b_step;
    uint32_t out_step;
} etd_line;

/* The alpha argument, in the type of the computation; integers are modulo 2^64. */
typedef struct {
    float real;
    double precise;
    uint64_t integer;
} etd_alpha;

/* Computes a line. The context is what etd_run_lines was given; of an etd_operation it is an etd_alpha. */
typedef void (*etd_line_fn)(const etd_line *line, const void *context);

/* Computes lines of a tensor from two others, which broadcast to it: lines are as long as layouts allow. */
void etd_run_lines(const etd_tensor *a, const etd_tensor *b, etd_tensor *out, etd_line_fn compute,
                   const void *context);

/* Copies and converts what `from` has where the mask holds to the same indexes of the output. Both broadcast
 * to the output; the mask is bool or uint8. */
void etd_put_where(const etd_tensor *from, const etd_tensor *mask, etd_tensor *out);

/* Defines an etd_line_fn: `expression` computes an element from a, b (both of `type`) and alpha. Each has its
 * own loop, because on a CPU with an FPU a call per element would cost more than the arithmetic. */
#define ETD_LINE_FN(name, type, expression) ETD_LINE_FN_TO(name, type, type, expression)

/* As ETD_LINE_FN, with another output type, such as bool. */
#define ETD_LINE_FN_TO(name, type, out_type, expression)                                                     \
    static void name(const etd_line *line, const void *context) {                                            \
        const etd_alpha *alpha = context;                                                                    \
        const type *a_at = (const type *)(const void *)line->a;                                              \
        const type *b_at = (const type *)(const void *)line->b;                                              \
        out_type *out_at = (out_type *)(void *)line->out; /* NOLINT(bugprone-macro-parentheses): a type */   \
        (void)alpha;                                                                                         \
        for (uint32_t i = 0; i < line->count; i++) {                                                         \
            const type a = a_at[i * line->a_step];                                                           \
            const type b = b_at[i * line->b_step];                                                           \
            (void)b; /* unused by operations of one tensor */                                                \
            out_at[i * line->out_step] = (expression);                                                       \
        }                                                                                                    \
    }

/* An operation for each element type. Types without a function are computed as int64 or float32, and an
 * operation without `int64s` computes integers as floats. Signed integers are computed as unsigned,
 * because they must wrap as in PyTorch and signed overflow is undefined in C. */
typedef struct {
    etd_line_fn floats;
    etd_line_fn doubles;
    etd_line_fn int32s;
    etd_line_fn int64s;
    etd_line_fn bools;
    etd_line_fn bytes; /* int8 and uint8, if both compute the same */
    bool has_alpha;    /* as the argument before the output */
    bool gives_truth;  /* the output is bool */
    bool of_truths;    /* elements of other types become bools: whether they are not 0 */
} etd_operation;

/* Sets the functions for numbers to `name`_floats and so on. */
#define ETD_NUMBER_FNS(name) .floats = name##_floats, .int32s = name##_int32s, .int64s = name##_int64s
#define ETD_ALL_NUMBER_FNS(name) ETD_NUMBER_FNS(name), .doubles = name##_doubles

/* Computes (self, *, out). Types are promoted as PyTorch does. */
const char *etd_run_unary(const etd_call *call, const etd_operation *operation);

/* Computes (self, other, *, out), or (self, other, *, alpha, out). */
const char *etd_run_binary(const etd_call *call, const etd_operation *operation);

/* As etd_run_binary, where `other` is a number. */
const char *etd_run_with_scalar(const etd_call *call, const etd_operation *operation);

/* A number as a tensor without dimensions. Contains a pointer to itself, so it must not be moved. */
typedef struct {
    _Alignas(8) uint8_t element[8];
    etd_tensor tensor;
} etd_scalar_operand;

/* Reads argument `i`, a number that meets elements of a tensor. Returns NULL, or a message if not supported.
 */
const char *etd_arg_operand(const etd_call *call, uint32_t i, const etd_tensor *tensor,
                            etd_scalar_operand *operand);

/* Common part of these functions: the tensors are known, and further arguments start at `next`. */
const char *etd_run_operands(const etd_call *call, const etd_operation *operation, const etd_tensor *self,
                             const etd_tensor *other, uint32_t next);

/* Computes one float32 element. */
typedef float (*etd_map_fn)(float x, const float *parameters);

/* Maps each element of argument 0 to the same position in argument `out`, whose elements are floats. */
const char *etd_run_map(const etd_call *call, uint32_t out, etd_map_fn map, const float *parameters);

/* Computes min(max(x, low), high) of each element; a bound may be NULL. NaN as an element or as a bound gives
 * NaN. */
const char *etd_run_clamp(const etd_call *call, uint32_t out, const etd_number *low, const etd_number *high);

#endif
