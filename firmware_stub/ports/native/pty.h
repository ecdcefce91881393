// SPDX-License-Identifier: Apache-2.0
/* The process's end of a pseudo-terminal, as a serial line that may be unplugged: nobody holding the other
 * end open is not an error. Ends the process on SIGTERM and when its parent is gone. */
#ifndef PTY_H
#define PTY_H

#include <stdint.h>

/* Opens the pair in raw mode and returns the path of the other end, or NULL with errno set. */
const char *pty_open(void);

/* Takes what has arrived, without waiting. */
uint32_t pty_read(uint8_t *bytes, uint32_t size);

/* Sends all bytes, waiting for the reader; drops them when there is none. */
void pty_write(const uint8_t *bytes, uint32_t size);

/* Waits for bytes, but not for long. */
void pty_wait(void);

#endif
