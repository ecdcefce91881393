// SPDX-License-Identifier: Apache-2.0
/* Saves a log in a file of the host, and ends the program with an exit status, by semihosting: a debugger or
 * simulator carries out each call. For tests in CI without a serial port.
 *
 * A call without a debugger that supports semihosting is a fault on Arm. Build these calls only into firmware
 * that runs under one. Each call stops the core for up to milliseconds on a real board, so make none within a
 * timed scope.
 *
 * Arm (A32, T32, M-profile) and RISC-V. The calls are those of "Semihosting for AArch32 and AArch64" and of
 * the RISC-V semihosting specification. */
#ifndef ETD_SEMIHOSTING_H
#define ETD_SEMIHOSTING_H

#include <stdbool.h>
#include <stdint.h>

#include "etd_tracer.h"

/* Writes the image of a tracer's log to a file, which is replaced. The path is relative to the directory of
 * the debugger or simulator. Returns false if the host could not write all of it. */
bool etd_semihosting_save_log(const etd_tracer *tracer, const char *path);

/* Opens a file for writing. Returns its handle, or -1. */
int32_t etd_semihosting_open(const char *path);

/* Writes all bytes to an open file. Returns false if the host did not. */
bool etd_semihosting_write(int32_t file, const void *bytes, uint32_t size);

/* Closes an open file. Returns false if the host did not. */
bool etd_semihosting_close(int32_t file);

/* Writes text to the console of the debugger. */
void etd_semihosting_print(const char *text);

/* Ends the program with an exit status, 0 for success. QEMU exits with it. */
_Noreturn void etd_semihosting_exit(uint32_t status);

#endif
