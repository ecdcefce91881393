/* All kernels, declared from the list of operators. */
#ifndef ET_KERNELS_H
#define ET_KERNELS_H

#include "et_kernel.h"

#define ET_OPERATOR(name, kernel) extern const et_kernel kernel;
#include "operators.def"
#undef ET_OPERATOR

#endif
