// SPDX-License-Identifier: Apache-2.0
/* Declares all kernels in the list of operators. */
#ifndef ETD_KERNELS_H
#define ETD_KERNELS_H

#include "etd_kernel.h"

#define ETD_OPERATOR(name, kernel) extern const etd_kernel kernel;
#include "operators.def"
#undef ETD_OPERATOR

#endif
