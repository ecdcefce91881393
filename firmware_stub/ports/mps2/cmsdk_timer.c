// SPDX-License-Identifier: Apache-2.0
/* CMSDK timer 0 of Arm's MPS2 images is the tick counter. It counts down. A port may set ETD_TIMER, its
 * address. */
#include "bare_metal.h"

#ifndef ETD_TIMER
#define ETD_TIMER 0x40000000u
#endif

#define TIMER_CTRL REGISTER(ETD_TIMER)
#define TIMER_VALUE REGISTER(ETD_TIMER + 0x4u)
#define TIMER_RELOAD REGISTER(ETD_TIMER + 0x8u)

uint32_t port_ticks(void) {
    return UINT32_MAX - TIMER_VALUE;
}

void port_restart_clock(void) {
    TIMER_CTRL = 0;
    TIMER_RELOAD = UINT32_MAX;
    TIMER_VALUE = UINT32_MAX;
    TIMER_CTRL = 1;
}
