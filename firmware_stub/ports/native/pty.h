// SPDX-License-Identifier: Apache-2.0
/* One end of a pseudo-terminal as a serial line that may be unplugged: it is no error if the other end is
 * closed. Ends the process on SIGTERM and when its parent has exited. */
#ifndef PTY_H
#define PTY_H

#include <stdint.h>

/* Opens the pair in raw mode. Returns the path of the other end, or NULL with errno set. */
const char *pty_open(void);

/* Copies received bytes without waiting. Returns their number. */
uint32_t pty_read(uint8_t *bytes, uint32_t size);

/* Sends all bytes and waits for the reader. Drops them if there is none. */
void pty_write(const uint8_t *bytes, uint32_t size);

/* Waits a short time for bytes. */
void pty_wait(void);

#endif
