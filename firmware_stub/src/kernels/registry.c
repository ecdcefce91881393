#include "kernels.h"

/* A board that links only some operators brings its own part of the list. */
#ifndef ET_OPERATOR_LIST
#define ET_OPERATOR_LIST "operators.def"
#endif

const et_kernel *const et_kernels[] = {
#define ET_OPERATOR(name, kernel) &(kernel),
#include ET_OPERATOR_LIST
#undef ET_OPERATOR
};

const uint32_t et_kernel_count = sizeof et_kernels / sizeof et_kernels[0];
