// SPDX-License-Identifier: Apache-2.0
/* CMSDK timer 0 of Arm's MPS2 images is the tick counter. It counts down. */
#include "bare_metal.h"

#define TIMER_CTRL REGISTER(0x40000000u)
#define TIMER_VALUE REGISTER(0x40000004u)
#define TIMER_RELOAD REGISTER(0x40000008u)

uint32_t port_ticks(void) {
    return UINT32_MAX - TIMER_VALUE;
}

void port_restart_clock(void) {
    TIMER_CTRL = 0;
    TIMER_RELOAD = UINT32_MAX;
    TIMER_VALUE = UINT32_MAX;
    TIMER_CTRL = 1;
}
