#include <stddef.h>

#include "et_delegate.h"

/* A board that links only some backends brings its own part of the list. */
#ifndef ET_DELEGATE_LIST
#define ET_DELEGATE_LIST "delegates.def"
#endif

#define ET_DELEGATE(name, delegate) extern const et_delegate delegate;
#include ET_DELEGATE_LIST
#undef ET_DELEGATE

const et_delegate *const et_delegates[] = {
#define ET_DELEGATE(name, delegate) &(delegate),
#include ET_DELEGATE_LIST
#undef ET_DELEGATE
    NULL,
};
