// SPDX-License-Identifier: Apache-2.0
/* What someone's project for a Cortex-M has beside newlib's start-up: where it begins. */
#include <stdint.h>

extern uint32_t __stack[];
void _start(void);

static void stop(void) {
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {(void (*)(void))__stack,
                                                                                     _start, stop, stop};
