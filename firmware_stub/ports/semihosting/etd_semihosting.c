// SPDX-License-Identifier: Apache-2.0
#include "etd_semihosting.h"

#include <stddef.h>
#include <string.h>

enum {
    SYS_OPEN = 0x01,
    SYS_CLOSE = 0x02,
    SYS_WRITE0 = 0x04,
    SYS_WRITE = 0x05,
    SYS_EXIT_EXTENDED = 0x20,
};

#define MODE_WRITE_BINARY 5u
#define APPLICATION_EXIT 0x20026u /* ADP_Stopped_ApplicationExit */

/* Few large calls, because each stops the core. */
#define PIECE 1024u

/* Calls the host. `argument` is an address: of the parameters or of a string. */
static intptr_t call(uintptr_t operation, const void *argument) {
#if defined(__riscv)
    register uintptr_t a0 __asm("a0") = operation;
    register const void *a1 __asm("a1") = argument;
    /* The host recognizes this sequence only uncompressed and within one page. */
    __asm volatile(".option push\n.option norvc\n.balign 16\n"
                   "slli x0, x0, 0x1f\nebreak\nsrai x0, x0, 7\n.option pop"
                   : "+r"(a0)
                   : "r"(a1)
                   : "memory");
    return (intptr_t)a0;
#elif defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
    register uintptr_t r0 __asm("r0") = operation;
    register const void *r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return (intptr_t)r0;
#elif defined(__thumb__)
    register uintptr_t r0 __asm("r0") = operation;
    register const void *r1 __asm("r1") = argument;
    __asm volatile("svc 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return (intptr_t)r0;
#elif defined(__arm__)
    register uintptr_t r0 __asm("r0") = operation;
    register const void *r1 __asm("r1") = argument;
    __asm volatile("svc 0x123456" : "+r"(r0) : "r"(r1) : "memory");
    return (intptr_t)r0;
#else
    (void)operation;
    (void)argument;
    return -1;
#endif
}

int32_t etd_semihosting_open(const char *path) {
    const uintptr_t parameters[] = {(uintptr_t)path, MODE_WRITE_BINARY, strlen(path)};
    return (int32_t)call(SYS_OPEN, parameters);
}

bool etd_semihosting_write(int32_t file, const void *bytes, uint32_t size) {
    const uintptr_t parameters[] = {(uintptr_t)file, (uintptr_t)bytes, size};
    return call(SYS_WRITE, parameters) == 0; /* the number of bytes that were not written */
}

bool etd_semihosting_close(int32_t file) {
    const uintptr_t parameters[] = {(uintptr_t)file};
    return call(SYS_CLOSE, parameters) == 0;
}

void etd_semihosting_print(const char *text) {
    (void)call(SYS_WRITE0, text);
}

_Noreturn void etd_semihosting_exit(uint32_t status) {
    const uintptr_t parameters[] = {APPLICATION_EXIT, status};
    for (;;) {
        (void)call(SYS_EXIT_EXTENDED, parameters);
    }
}

bool etd_semihosting_save_log(const etd_tracer *tracer, const char *path) {
    int32_t file = etd_semihosting_open(path);
    if (file < 0) {
        return false;
    }
    uint8_t piece[PIECE];
    bool written = true;
    uint32_t size = etd_log_size(tracer);
    for (uint32_t at = 0; written && at < size;) {
        uint32_t count = etd_log_read(tracer, at, piece, sizeof piece);
        written = etd_semihosting_write(file, piece, count);
        at += count;
    }
    return etd_semihosting_close(file) && written;
}
