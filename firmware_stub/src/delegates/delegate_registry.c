// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

#include "etd_delegate.h"

/* A board that links only some backends sets its own list. */
#ifndef ETD_DELEGATE_LIST
#define ETD_DELEGATE_LIST "delegates.def"
#endif

#define ETD_DELEGATE(name, delegate) extern const etd_delegate delegate;
#include ETD_DELEGATE_LIST
#undef ETD_DELEGATE

const etd_delegate *const etd_delegates[] = {
#define ETD_DELEGATE(name, delegate) &(delegate),
#include ETD_DELEGATE_LIST
#undef ETD_DELEGATE
    NULL,
};
