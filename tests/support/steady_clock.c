// SPDX-License-Identifier: Apache-2.0
/* Preloaded into the native firmware, it makes the clock independent of the host's load.
 *
 * Between two readings STEADY_CLOCK_NS nanoseconds pass, by a few percent more or less, however long the host
 * takes. Before it waits for the line or reads from it, the firmware sleeps until the host's clock is as far:
 * whoever asks what time it is gets an answer that is right. */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PER_S 1000000000LL
/* The steps are spread over 8 % around the chosen one. */
#define SPREAD 9u
#define LEAST_PERCENT 96

static int (*real_gettime)(clockid_t, struct timespec *);
static int (*real_poll)(struct pollfd *, nfds_t, int);
static ssize_t (*real_read)(int, void *, size_t);
static long long step, shown;
static bool asked = true;
static unsigned noise;

/* It has the name of its build, or of a kept image: one that ends in a digest. */
static bool is_firmware(void) {
    const char *name = program_invocation_short_name;
    size_t length = strlen(name);
    return strcmp(name, "firmware") == 0 || (length > 64 && strspn(name + length - 64, "0123456789abcdef") == 64);
}

/* At once, so that no call takes stack for it; other libraries may call before. */
__attribute__((constructor)) static void begin(void) {
    const char *chosen = getenv("STEADY_CLOCK_NS");
    if (real_read != NULL) {
        return;
    }
    *(void **)&real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    *(void **)&real_poll = dlsym(RTLD_NEXT, "poll");
    *(void **)&real_read = dlsym(RTLD_NEXT, "read");
    if (chosen != NULL && is_firmware()) {
        step = atoll(chosen);
    }
}

static long long host(void) {
    struct timespec now;
    (void)real_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * PER_S + now.tv_nsec;
}

/* Lets the host's clock pass what was shown; the next reading is the host's. Sleeps for no time rather than not
 * at all: the firmware measures its stack. */
static void meet_host(void) {
    int before = errno;
    long long now = host();
    long long ahead = shown > now ? shown - now : 0;
    const struct timespec pause = {.tv_sec = ahead / PER_S, .tv_nsec = ahead % PER_S};
    (void)nanosleep(&pause, NULL);
    errno = before;
    asked = true;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    begin();
    if (step == 0 || clock != CLOCK_MONOTONIC) {
        return real_gettime(clock, now);
    }
    if (asked) {
        long long reading = host();
        shown = reading > shown ? reading : shown;
        asked = false;
    } else {
        noise = noise * 1103515245u + 12345u;
        shown += step * (LEAST_PERCENT + (noise >> 16) % SPREAD) / 100;
    }
    now->tv_sec = (time_t)(shown / PER_S);
    now->tv_nsec = (long)(shown % PER_S);
    return 0;
}

int poll(struct pollfd *entries, nfds_t count, int timeout) {
    begin();
    if (step != 0) {
        meet_host();
    }
    return real_poll(entries, count, timeout);
}

ssize_t read(int file, void *bytes, size_t size) {
    begin();
    ssize_t count = real_read(file, bytes, size);
    if (step != 0 && count > 0) {
        meet_host();
    }
    return count;
}
