/* What a kernel is: a name as the .pte file spells it and a function over its arguments. */
#ifndef ET_KERNEL_H
#define ET_KERNEL_H

#include "et_runtime.h"

/* The arguments of one call, in the file's order; the out tensors are the last of them. */
typedef struct {
    const et_value *values; /* all values of the method; lists refer to them */
    const uint32_t *args;   /* indexes into values */
    uint32_t count;
    et_error *error;
} et_call;

typedef et_status (*et_kernel_fn)(et_call *call);

struct et_kernel {
    const char *name;       /* such as "aten::relu" */
    const char *overload;   /* such as "out" */
    const char *event_name; /* such as "native_call_relu.out"; NULL when ExecuTorch traces none */
    uint32_t min_args;
    et_kernel_fn run;
};

/* The kernels linked in. Operators are found by name and overload. */
extern const et_kernel *const et_kernels[];
extern const uint32_t et_kernel_count;

#endif
