/* Elementwise operations: two tensors broadcast to the shape of a third, or one mapped to another. */
#ifndef ET_ELEMENTWISE_H
#define ET_ELEMENTWISE_H

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
} et_line;

/* The operators' alpha, in the type of the computation; integers modulo 2^64. */
typedef struct {
    float real;
    uint64_t integer;
} et_alpha;

typedef void (*et_line_fn)(const et_line *line, const et_alpha *alpha);

/* Defines an et_line_fn: `expression` computes an element from a, b (both `type`) and alpha. Each gets a loop
 * of its own, because on a CPU with an FPU a call per element would cost more than the arithmetic. */
#define ET_LINE_FN(name, type, expression) ET_LINE_FN_TO(name, type, type, expression)

/* The same for elements of another type, such as truth values. */
#define ET_LINE_FN_TO(name, type, out_type, expression)                                                      \
    static void name(const et_line *line, const et_alpha *alpha) {                                           \
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
    et_line_fn floats;
    et_line_fn int32s;
    et_line_fn int64s;
    et_line_fn bools;
    bool has_alpha;   /* as the argument before the output */
    bool gives_truth; /* the output is bool */
} et_operation;

/* Initializes those of numbers by functions called `name`_floats and so on. */
#define ET_NUMBER_FNS(name) .floats = name##_floats, .int32s = name##_int32s, .int64s = name##_int64s

/* Computes (self, *, out). */
const char *et_run_unary(const et_call *call, const et_operation *operation);

/* Computes (self, other, *, out), or (self, other, *, alpha, out). */
const char *et_run_binary(const et_call *call, const et_operation *operation);

/* The same where other is a number of a type that self can hold. */
const char *et_run_with_scalar(const et_call *call, const et_operation *operation);

/* What these have in common: the tensors are known, and arguments go on at `next`. */
const char *et_run_operands(const et_call *call, const et_operation *operation, const et_tensor *self,
                            const et_tensor *other, uint32_t next);

/* Computes one float32 element. */
typedef float (*et_map_fn)(float x, float parameter);

/* Maps each element of argument 0 to the same place of argument `out`. */
const char *et_run_map(const et_call *call, uint32_t out, et_map_fn map, float parameter);

/* The same with min(max(x, low), high), where NaN stays NaN. */
const char *et_run_clamp(const et_call *call, uint32_t out, float low, float high);

#endif
