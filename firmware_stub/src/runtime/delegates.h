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

/* Memory that an execution of a delegate takes, and that is free when it has ended. */
struct etd_temporary {
    etd_arena memory;
    etd_tracer *tracer;
    uint32_t allocator; /* its id in the trace */
    uint32_t taken;     /* bytes asked for and given */
};

/* temporary.c: makes the memory large enough for an execution that takes `size` bytes. */
void etd_reserve_temporary(etd_temporary *temporary, uint32_t size);

/* Takes the memory that was reserved from the loader's arena. */
void etd_load_temporary(etd_loader *loader);

/* Ends what an execution has taken. */
void etd_release_temporary(etd_temporary *temporary);

/* Finds the backend of every delegate, then initialises them all; on failure none stays initialised. */
void etd_load_delegates(etd_loader *loader);

#endif
