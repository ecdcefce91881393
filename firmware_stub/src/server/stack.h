/* How deep the stack has been: painted before a run, looked at after it, or after the reset that ended it. */
#ifndef ET_STACK_H
#define ET_STACK_H

#include "et_port.h"

/* Paints what is not in use, all of it below the caller's frame. Does nothing when the place is unknown. */
void et_stack_paint(const et_port *port);

/* From the top to the deepest word that is not paint any more; unknown when the port does not know its stack,
 * or nothing has been painted: then the whole stack would seem used. */
et_stack_use et_stack_read(const et_port *port);

#endif
