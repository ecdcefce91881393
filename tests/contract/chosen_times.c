// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded into the native firmware: while it works, each reading of its clock takes 2 us, give or take
 * 0.5 %, and nothing else takes any time. The 40th reading after it has waited for the host takes longer
 * by a factor. While it waits, the clock is the host's. CHOSEN_TIMES names a file with a factor for each
 * start of the firmware, then 1; the file CHOSEN_TIMES.started counts the starts.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

static uint64_t noise;
static double factor;
static long long ns;
static int readings;
static int (*real)(clockid_t, struct timespec *);

static long long host_ns(void) {
    struct timespec now = {0, 0};
    (void)real(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static double factor_of_this_start(const char *file) {
    char counter[4096];
    (void)snprintf(counter, sizeof counter, "%s.started", file);
    FILE *starts = fopen(counter, "a");
    long number = 0;
    if (starts != NULL) {
        (void)fputc('.', starts);
        number = ftell(starts);
        (void)fclose(starts);
    }
    noise = 0x9e3779b97f4a7c15u * (uint64_t)number;
    double chosen = 1.0;
    FILE *factors = fopen(file, "r");
    for (long at = 0; factors != NULL && at < number; at++) {
        if (fscanf(factors, "%lf", &chosen) != 1) {
            chosen = 1.0;
            break;
        }
    }
    if (factors != NULL) {
        (void)fclose(factors);
    }
    return chosen;
}

/* It has the name of its build, or of a kept image: one that ends in a digest. */
static int is_firmware(void) {
    const char *name = program_invocation_short_name;
    size_t length = strlen(name);
    return strcmp(name, "firmware") == 0 || (length > 64 && strspn(name + length - 64, "0123456789abcdef") == 64);
}

static void begin(void) {
    const char *file = getenv("CHOSEN_TIMES");
    *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    if (file != NULL && is_firmware()) {
        factor = factor_of_this_start(file);
        ns = host_ns();
    }
}

/* The host has sent something, so the firmware has waited for it. */
static void waited(void) {
    readings = 0;
    if (factor != 0.0) {
        long long now = host_ns();
        ns = now > ns ? now : ns;
    }
}

ssize_t read(int file, void *bytes, size_t size) {
    static ssize_t (*wrapped)(int, void *, size_t);
    if (wrapped == NULL) {
        *(void **)&wrapped = dlsym(RTLD_NEXT, "read");
    }
    ssize_t count = wrapped(file, bytes, size);
    if (count > 0) {
        waited();
    }
    return count;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (real == NULL) {
        begin();
    }
    if (clock != CLOCK_MONOTONIC || factor == 0.0) {
        return real(clock, now);
    }
    noise = noise * 6364136223846793005u + 1442695040888963407u;
    double share = (double)(noise >> 11) / 9007199254740992.0;
    ns += (long long)(2000.0 * (++readings == 40 ? factor : 1.0) * (0.995 + 0.01 * share));
    now->tv_sec = (time_t)(ns / 1000000000);
    now->tv_nsec = (long)(ns % 1000000000);
    return 0;
}
