// SPDX-License-Identifier: Apache-2.0
/* Stack high-water mark: the unused stack is painted before a run and examined after the run or after a
 * reset. */
#ifndef ETD_STACK_H
#define ETD_STACK_H

#include "etd_port.h"

/* Paints the stack below the caller's frame. Does nothing if the port does not know its stack. */
void etd_stack_paint(const etd_port *port);

/* Returns the stack use up to the deepest word that was overwritten. Unknown if the port does not know its
 * stack or nothing was painted, because the whole stack would then appear used. */
etd_stack_use etd_stack_read(const etd_port *port);

#endif
