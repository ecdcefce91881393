// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE

#include "pty.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 50
#define UNPLUGGED_MS 2

static int line = -1;
static pid_t parent;
static volatile sig_atomic_t stopping;

static void stop(int signal_number) {
    (void)signal_number;
    stopping = 1;
}

/* Polls the parent instead of using PR_SET_PDEATHSIG, which is sent when the *thread* that started this
 * process ends. */
static void exit_if_orphaned(void) {
    if (stopping || getppid() != parent) {
        exit(EXIT_SUCCESS);
    }
}

static bool make_raw(int terminal) {
    struct termios settings;
    if (tcgetattr(terminal, &settings) != 0) {
        return false;
    }
    cfmakeraw(&settings);
    return tcsetattr(terminal, TCSANOW, &settings) == 0;
}

const char *pty_open(void) {
    parent = getppid();
    struct sigaction action = {.sa_handler = stop};
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);

    line = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (line < 0 || grantpt(line) != 0 || unlockpt(line) != 0) {
        return NULL;
    }
    const char *path = ptsname(line);
    if (path == NULL) {
        return NULL;
    }
    /* Opens and closes the other end once, so that a missing reader is reported as a hang-up. */
    int other_end = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (other_end < 0) {
        return NULL;
    }
    bool raw = make_raw(line) && make_raw(other_end);
    (void)close(other_end);
    return raw ? path : NULL;
}

/* Returns which of POLLIN, POLLOUT and POLLHUP are set within WAIT_MS. */
static short wait_for(short events) {
    exit_if_orphaned();
    struct pollfd entry = {.fd = line, .events = events};
    return poll(&entry, 1, WAIT_MS) > 0 ? entry.revents : 0;
}

uint32_t pty_read(uint8_t *bytes, uint32_t size) {
    ssize_t count = read(line, bytes, size);
    return count > 0 ? (uint32_t)count : 0;
}

void pty_write(const uint8_t *bytes, uint32_t size) {
    while (size > 0) {
        short events = wait_for(POLLOUT);
        if ((events & POLLHUP) != 0) {
            return;
        }
        ssize_t count = (events & POLLOUT) != 0 ? write(line, bytes, size) : 0;
        if (count > 0) {
            bytes += count;
            size -= (uint32_t)count;
        }
    }
}

void pty_wait(void) {
    if ((wait_for(POLLIN) & (POLLIN | POLLHUP)) == POLLHUP) {
        /* A hang-up is reported immediately on every poll; sleep to avoid spinning. */
        const struct timespec pause = {.tv_nsec = UNPLUGGED_MS * 1000000L};
        (void)nanosleep(&pause, NULL);
    }
}
