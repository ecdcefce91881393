// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

#include "etd_delegate.h"

const etd_delegate *const etd_delegates[] = {NULL};
