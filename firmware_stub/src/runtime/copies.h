// SPDX-License-Identifier: Apache-2.0
/* Private to the runtime: float32 copies of float16 and bfloat16 tensors (float32_copies.c). */
#ifndef ETD_COPIES_H
#define ETD_COPIES_H

#include "etd_kernel.h"
#include "loader.h"

/* Makes the method's memory for copies large enough for an instruction that calls a kernel. */
void etd_reserve_copies(etd_loader *loader, const etd_instruction *instruction);

/* Allocates the reserved memory from the loader's arena. */
void etd_load_copies(etd_loader *loader);

/* Runs a kernel that has refused its arguments again, on copies of those in 16 bits. Returns the first
 * refusal if there are none. */
const char *etd_run_on_copies(const etd_method *method, const etd_kernel *kernel, const etd_call *call,
                              const char *refusal);

static inline uint32_t etd_least_args(const etd_kernel *kernel) {
    return kernel->min_args % ETD_IN_FLOAT32;
}

#endif
