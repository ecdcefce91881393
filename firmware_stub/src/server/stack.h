// SPDX-License-Identifier: Apache-2.0
/* How deep the stack has been: painted before a run, looked at after it, or after the reset that ended it. */
#ifndef ETD_STACK_H
#define ETD_STACK_H

#include "etd_port.h"

/* Paints what is not in use, all of it below the caller's frame. Does nothing when the place is unknown. */
void etd_stack_paint(const etd_port *port);

/* From the top to the deepest word that is not paint any more; unknown when the port does not know its stack,
 * or nothing has been painted: then the whole stack would seem used. */
etd_stack_use etd_stack_read(const etd_port *port);

#endif
