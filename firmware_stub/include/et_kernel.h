/* What a kernel is: a name as the .pte file spells it and a function over its arguments. */
#ifndef ET_KERNEL_H
#define ET_KERNEL_H

#include "et_runtime.h"

/* The arguments of one call, in the file's order: inputs, out tensors, and once more what the operator
 * returns. Read them through src/kernels/arguments.h, which checks kinds and ranges. */
typedef struct {
    et_value *values; /* all values of the method; lists refer to them */
    uint32_t value_count;
    const uint32_t *args; /* indexes into values, checked */
    uint32_t count;       /* at least the kernel's min_args */
} et_call;

/* Computes, and returns NULL; or touches no memory and returns why it refuses its arguments. Nothing
 * about them has been checked beyond their number: a kernel checks every size that it relies on. */
typedef const char *(*et_kernel_fn)(const et_call *call);

struct et_kernel {
    const char *name;       /* such as "aten::relu" */
    const char *overload;   /* such as "out" */
    const char *event_name; /* such as "native_call_relu.out"; NULL when ExecuTorch traces none */
    uint32_t min_args;
    et_kernel_fn run;
};

/* Gives a tensor these sizes. False when it has another number of dimensions, when its shape is not dynamic
 * and differs, or when the elements would be more than its bounds hold. */
bool et_resize(et_tensor *tensor, const int32_t *sizes, uint32_t ndim);

/* The kernels linked in. Operators are found by name and overload. */
extern const et_kernel *const et_kernels[];
extern const uint32_t et_kernel_count;

#endif
