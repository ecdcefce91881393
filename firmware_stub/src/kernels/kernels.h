// SPDX-License-Identifier: Apache-2.0
/* Declares all kernels in the list of operators. */
#ifndef ETD_KERNELS_H
#define ETD_KERNELS_H

#include "etd_kernel.h"

#define ETD_OPERATOR(name, kernel, types) extern const etd_kernel kernel;
#include "operators.def"
#undef ETD_OPERATOR

/* Defines the kernel of an operator of the aten library. ExecuTorch names its event after the operator. */
#define ETD_ATEN_KERNEL(symbol, name, overload, args, run)                                                   \
    const etd_kernel etd_aten_##symbol = {"aten::" name, overload, "native_call_" name "." overload, args,   \
                                          run};

#endif
