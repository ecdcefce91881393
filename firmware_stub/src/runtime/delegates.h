// SPDX-License-Identifier: Apache-2.0
/* Private to the runtime: the parts of a method that backends execute. */
#ifndef ETD_DELEGATES_H
#define ETD_DELEGATES_H

#include "etd_delegate.h"
#include "loader.h"

struct etd_loaded_delegate {
    const etd_delegate *backend;
    void *handle;
};

/* Memory for one execution of a delegate; released when the execution ends. */
struct etd_temporary {
    etd_arena memory;
    etd_tracer *tracer;
    uint32_t allocator; /* its id in the trace */
    uint32_t taken;     /* bytes allocated */
};

/* temporary.c: makes the memory large enough for `size` bytes per execution. */
void etd_reserve_temporary(etd_temporary *temporary, uint32_t size);

/* Allocates the reserved memory from the loader's arena. */
void etd_load_temporary(etd_loader *loader);

/* Releases the allocations of an execution. */
void etd_release_temporary(etd_temporary *temporary);

/* Finds the backend of every delegate, then initializes all delegates. On failure none remains
 * initialized. */
void etd_load_delegates(etd_loader *loader);

#endif
