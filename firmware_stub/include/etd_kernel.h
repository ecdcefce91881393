// SPDX-License-Identifier: Apache-2.0
/* Interface of a kernel: an operator's name as in the .pte file and a function that computes it. */
#ifndef ETD_KERNEL_H
#define ETD_KERNEL_H

#include "etd_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arguments of one call, in the order of the file: inputs, out tensors, then the returned values again. Read
 * them through src/kernels/support/arguments.h, which checks types and ranges. */
typedef struct {
    etd_value *values; /* all values of the method, which lists index */
    uint32_t value_count;
    const uint32_t *args; /* indexes into values, already checked */
    uint32_t count;       /* at least as many as the kernel asks for */
} etd_call;

/* Computes the operator. Returns NULL on success, or a message if it rejects its arguments; it must then
 * leave memory unchanged. The runtime checks only the number of arguments. The kernel must check every type
 * and size that it relies on. */
typedef const char *(*etd_kernel_fn)(const etd_call *call);

/* Added to a kernel's min_args: it computes with float32, so where it refuses a call with tensors of float16
 * or bfloat16, the runtime runs it again on copies of them as float32, in memory reserved for the method. */
#define ETD_IN_FLOAT32 0x10000u

/* A kernel. The strings and the function must stay valid. */
struct etd_kernel {
    const char *name;       /* for example "aten::relu" */
    const char *overload;   /* for example "out" */
    const char *event_name; /* for example "native_call_relu.out"; NULL if ExecuTorch does not trace it */
    uint32_t min_args;      /* of a call; plus ETD_IN_FLOAT32 if the runtime may run it on copies */
    etd_kernel_fn run;
};

/* Sets the sizes of a tensor, in elements per dimension. Returns false if the number of dimensions differs,
 * if a static shape differs, or if the data would exceed the tensor's bounds. */
bool etd_resize(etd_tensor *tensor, const int32_t *sizes, uint32_t ndim);

/* The kernels linked into the firmware, found by name and overload. */
extern const etd_kernel *const etd_kernels[];
extern const uint32_t etd_kernel_count;

#ifdef __cplusplus
}
#endif

#endif
