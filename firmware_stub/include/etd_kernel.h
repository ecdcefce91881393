// SPDX-License-Identifier: Apache-2.0
/* What a kernel is: a name as the .pte file spells it and a function over its arguments. */
#ifndef ETD_KERNEL_H
#define ETD_KERNEL_H

#include "etd_runtime.h"

/* The arguments of one call, in the file's order: inputs, out tensors, and once more what the operator
 * returns. Read them through src/kernels/arguments.h, which checks kinds and ranges. */
typedef struct {
    etd_value *values; /* all values of the method; lists refer to them */
    uint32_t value_count;
    const uint32_t *args; /* indexes into values, checked */
    uint32_t count;       /* at least the kernel's min_args */
} etd_call;

/* Computes, and returns NULL; or touches no memory and returns why it refuses its arguments. Nothing
 * about them has been checked beyond their number: a kernel checks every size that it relies on. */
typedef const char *(*etd_kernel_fn)(const etd_call *call);

struct etd_kernel {
    const char *name;       /* such as "aten::relu" */
    const char *overload;   /* such as "out" */
    const char *event_name; /* such as "native_call_relu.out"; NULL when ExecuTorch traces none */
    uint32_t min_args;
    etd_kernel_fn run;
};

/* Gives a tensor these sizes. False when it has another number of dimensions, when its shape is not dynamic
 * and differs, or when the elements would be more than its bounds hold. */
bool etd_resize(etd_tensor *tensor, const int32_t *sizes, uint32_t ndim);

/* The kernels linked in. Operators are found by name and overload. */
extern const etd_kernel *const etd_kernels[];
extern const uint32_t etd_kernel_count;

#endif
