/* Private to the runtime: the parts of a method that backends execute. */
#ifndef ET_DELEGATES_H
#define ET_DELEGATES_H

#include "et_delegate.h"
#include "loader.h"

struct et_loaded_delegate {
    const et_delegate *backend;
    void *handle;
};

/* Finds the backend of every delegate, then initialises them all; on failure none stays initialised. */
void et_load_delegates(et_loader *loader);

#endif
