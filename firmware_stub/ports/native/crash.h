// SPDX-License-Identifier: Apache-2.0
/* Treats a crash of the process like a fault of a board and keeps it across the restart. */
#ifndef CRASH_H
#define CRASH_H

/* From now on, a signal that indicates a crash is recorded and `restart` is called, which must not return.
 * This applies only to the main thread, and only if crash_settled was called since the last restart;
 * otherwise the signal ends the process. With AddressSanitizer it always does, so that the sanitizer can
 * report. */
void crash_catch(void (*restart)(void));

/* Marks start-up as successful. Call it when the program waits for the host. */
void crash_settled(void);

#endif
