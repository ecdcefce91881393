// SPDX-License-Identifier: Apache-2.0
/* What C++ code and newlib require of a board without an operating system: constructors before main, no heap,
 * no exceptions, no files. The names are fixed by the Arm C++ ABI and by newlib.
 *
 * ExecuTorch registers kernels and backends in constructors of static objects. cmake/cplusplus.cmake adds
 * this file to a port. */
#include <stddef.h>

#include "bare_metal.h"

typedef void (*constructor)(void);

/* From the linker script. */
extern const constructor init_array_start[], init_array_end[];

/* Faults, so that the host sees a crash with the address of the caller instead of a silent stop. */
static _Noreturn void crash(void) {
    __builtin_trap();
}

void run_constructors(void) {
    for (const constructor *run = init_array_start; run != init_array_end; run++) {
        (*run)();
    }
}

/* Destructors of static objects are not kept, because main does not return. */
void *__dso_handle;
int __aeabi_atexit(void *object, void (*destroy)(void *), void *dso);
int __aeabi_atexit(void *object, void (*destroy)(void *), void *dso) {
    (void)object;
    (void)destroy;
    (void)dso;
    return 0;
}

/* libstdc++'s version prints a message, which links much of it. */
void __cxa_pure_virtual(void);
void __cxa_pure_virtual(void) {
    crash();
}

/* There is no heap, so nothing is ever deleted. Virtual destructors refer to operator delete all the same. */
void *operator_new(size_t size) __asm__("_Znwj");
void *operator_new(size_t size) {
    (void)size;
    crash();
}

void operator_delete(void *object) __asm__("_ZdlPv");
void operator_delete(void *object) {
    (void)object;
}

void operator_delete_sized(void *object, size_t size) __asm__("_ZdlPvj");
void operator_delete_sized(void *object, size_t size) {
    (void)object;
    (void)size;
}

/* newlib's system calls. */

/* malloc returns NULL. */
void *_sbrk(ptrdiff_t increment);
void *_sbrk(ptrdiff_t increment) {
    (void)increment;
    return (void *)-1;
}

int _write(int file, const void *bytes, size_t size);
int _write(int file, const void *bytes, size_t size) {
    (void)file;
    port_print(bytes, (uint32_t)size);
    return (int)size;
}

int _read(int file, void *bytes, size_t size);
int _read(int file, void *bytes, size_t size) {
    (void)file;
    (void)bytes;
    (void)size;
    return 0; /* end of file */
}

int _close(int file);
int _close(int file) {
    (void)file;
    return -1;
}

int _lseek(int file, int offset, int whence);
int _lseek(int file, int offset, int whence) {
    (void)file;
    (void)offset;
    (void)whence;
    return -1;
}

/* Without a mode newlib takes a file for a regular one, and buffers it. */
int _fstat(int file, void *status);
int _fstat(int file, void *status) {
    (void)file;
    (void)status;
    return -1;
}

int _isatty(int file);
int _isatty(int file) {
    (void)file;
    return 1;
}

/* ExecuTorch's default platform for POSIX asks for the time; the adapter replaces its clock. */
int _gettimeofday(void *time, void *zone);
int _gettimeofday(void *time, void *zone) {
    (void)time;
    (void)zone;
    return -1;
}

/* libstdc++'s random device asks for this. ExecuTorch's portable kernels of random numbers refer to it; there
 * is no source of randomness, so they fail. */
int getentropy(void *bytes, size_t size);
int getentropy(void *bytes, size_t size) {
    (void)bytes;
    (void)size;
    return -1;
}

int _getpid(void);
int _getpid(void) {
    return 1;
}

/* abort() ends here. */
int _kill(int process, int signal);
int _kill(int process, int signal) {
    (void)process;
    (void)signal;
    crash();
}

_Noreturn void _exit(int status);
_Noreturn void _exit(int status) {
    (void)status;
    crash();
}
