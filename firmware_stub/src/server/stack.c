// SPDX-License-Identifier: Apache-2.0
#include "stack.h"

#include <stddef.h>

#define PAINT 0x57AC6B05u
#define MARGIN_WORDS 16 /* words below this function's frame that the compiler may use */

__attribute__((noinline)) void etd_stack_paint(const etd_port *port) {
    if (port->stack_bottom == NULL) {
        return;
    }
    volatile uint32_t *here = __builtin_frame_address(0);
    for (volatile uint32_t *at = port->stack_bottom; at < here - MARGIN_WORDS; at++) {
        *at = PAINT;
    }
}

etd_stack_use etd_stack_read(const etd_port *port) {
    etd_stack_use use = {0, 0};
    if (port->stack_bottom == NULL) {
        return use;
    }
    volatile const uint32_t *at = port->stack_bottom;
    while (at < port->stack_top && *at == PAINT) {
        at++;
    }
    use.used = (uint32_t)((uintptr_t)port->stack_top - (uintptr_t)at);
    use.size = (uint32_t)((uintptr_t)port->stack_top - (uintptr_t)port->stack_bottom);
    return use;
}
