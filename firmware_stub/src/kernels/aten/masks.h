// SPDX-License-Identifier: Apache-2.0
/* Boolean masks as indexes: they choose the elements where they are true. */
#ifndef ETD_MASKS_H
#define ETD_MASKS_H

#include "../support/arguments.h"

/* Returns true if the list of indexes (argument 1) holds a mask. */
bool etd_is_index_a_mask(const etd_call *call);

/* Copies what a mask (in argument 1) chooses, in the order of the mask's elements. */
const char *etd_index_by_mask(const etd_call *call, const etd_tensor *self, etd_tensor *out);

/* Puts values to the places that a mask chooses in the output, which is self or becomes a copy of it. If
 * `accumulate`, they are added to what is there. */
const char *etd_put_by_mask(const etd_call *call, const etd_tensor *self, const etd_tensor *values,
                            bool accumulate, etd_tensor *out);

#endif
