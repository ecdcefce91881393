// SPDX-License-Identifier: Apache-2.0
/* A crash of the process as a fault of a board: kept for after the restart. */
#ifndef CRASH_H
#define CRASH_H

/* From now on a signal that says the program is broken is kept, and `restart` is called, which must not
 * return. Only on the main thread, and only when crash_settled was called since the last restart; otherwise
 * the process dies of the signal. Under AddressSanitizer, which has more to say, it always does. */
void crash_catch(void (*restart)(void));

/* The program works: it waits for the host. */
void crash_settled(void);

#endif
