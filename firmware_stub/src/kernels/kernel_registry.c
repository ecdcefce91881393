// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

/* A board that links only some operators sets its own list. */
#ifndef ETD_OPERATOR_LIST
#define ETD_OPERATOR_LIST "operators.def"
#endif

const etd_kernel *const etd_kernels[] = {
#define ETD_OPERATOR(name, kernel, types) &(kernel),
#include ETD_OPERATOR_LIST
#undef ETD_OPERATOR
};

const char etd_kernel_library[] = "bundled C kernels";

const uint32_t etd_kernel_count = sizeof etd_kernels / sizeof etd_kernels[0];
