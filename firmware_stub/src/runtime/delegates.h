/* Private to the runtime: the parts of a method that backends execute. */
#ifndef ET_DELEGATES_H
#define ET_DELEGATES_H

#include "et_delegate.h"
#include "loader.h"

struct et_loaded_delegate {
    const et_delegate *backend;
    void *handle;
};

/* Memory that an execution of a delegate takes, and that is free when it has ended. */
struct et_temporary {
    et_arena memory;
    et_tracer *tracer;
    uint32_t allocator; /* its id in the trace */
    uint32_t taken;     /* bytes asked for and given */
};

/* temporary.c: makes the memory large enough for an execution that takes `size` bytes. */
void et_reserve_temporary(et_temporary *temporary, uint32_t size);

/* Takes the memory that was reserved from the loader's arena. */
void et_load_temporary(et_loader *loader);

/* Ends what an execution has taken. */
void et_release_temporary(et_temporary *temporary);

/* Finds the backend of every delegate, then initialises them all; on failure none stays initialised. */
void et_load_delegates(et_loader *loader);

#endif
