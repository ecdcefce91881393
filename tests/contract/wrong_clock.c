// SPDX-License-Identifier: Apache-2.0
/* Preloaded into the native firmware: its clock runs at WRONG_CLOCK ("9/10") of the host's. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    static long long up, down;
    if (real == NULL) {
        const char *share = getenv("WRONG_CLOCK");
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
        if (share == NULL || strcmp(program_invocation_short_name, "firmware") != 0 ||
            sscanf(share, "%lld/%lld", &up, &down) != 2) {
            down = 0;
        }
    }
    int result = real(clock, now);
    if (result == 0 && clock == CLOCK_MONOTONIC && down != 0) {
        /* Offset, so that a clock that runs backwards stays positive. */
        long long ns = 1000000000000000LL + (now->tv_sec * 1000000000LL + now->tv_nsec) / down * up;
        now->tv_sec = (time_t)(ns / 1000000000);
        now->tv_nsec = (long)(ns % 1000000000);
    }
    return result;
}
