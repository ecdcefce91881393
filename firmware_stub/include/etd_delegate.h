// SPDX-License-Identifier: Apache-2.0
/* What a backend is: a name as the .pte file spells it, and what it does with the parts of a program that
 * were compiled for it ahead of time. docs/delegates.md shows how to write one. */
#ifndef ETD_DELEGATE_H
#define ETD_DELEGATE_H

#include "etd_kernel.h"

/* An option given ahead of time. */
typedef struct {
    const char *key;
    const uint8_t *value; /* in the file, of any alignment */
    uint32_t size;
} etd_compile_spec;

typedef struct etd_delegate_memory etd_delegate_memory;

/* What one delegate of a method is made from. The bytes are the file's and stay as long as the method. */
typedef struct {
    etd_tracer *tracer;       /* may be NULL */
    const uint8_t *processed; /* what the backend's preprocess returned; aligned to 4 bytes */
    uint32_t size;
    uint32_t spec_count;
    etd_delegate_memory *memory; /* for etd_delegate_take and etd_delegate_spec */
} etd_delegate_source;

/* Option number `index`, below spec_count. */
etd_compile_spec etd_delegate_spec(const etd_delegate_source *source, uint32_t index);

/* Takes `size` bytes, aligned to 16, from the method's arena, for as long as the method is loaded. NULL when
 * they are not there: init then fails in whatever way, and the runtime says how large the arena must be. */
void *etd_delegate_take(const etd_delegate_source *source, uint32_t size);

/* Asks that each execution can take `size` bytes of temporary memory, from which all delegates of a method
 * take in turns. Pieces are aligned to 16 bytes, and count as if their sizes were. */
void etd_delegate_reserve_temporary(const etd_delegate_source *source, uint32_t size);

/* What an execution may use besides its arguments. */
typedef struct {
    etd_tracer *tracer;       /* may be NULL; chain and instruction are set already */
    etd_temporary *temporary; /* for etd_delegate_take_temporary */
} etd_delegate_run;

/* Takes `size` bytes, aligned to 16, until the execution ends; what they hold is undefined. NULL, and a
 * failure in the trace, when more is taken than init has reserved. */
void *etd_delegate_take_temporary(const etd_delegate_run *run, uint32_t size);

/* A backend. The runtime calls init when it loads a method, once for each part compiled for the backend, then
 * execute any number of times, then destroy. */
typedef struct {
    const char *name;
    /* Checks all that it was given, which nobody has, and sets *handle; or fails and leaves nothing behind.
     */
    etd_status (*init)(const etd_delegate_source *source, void **handle, etd_error *error);
    /* Computes, and returns NULL; or returns why it could not. The arguments are inputs, then outputs; they
     * have not been checked, and src/kernels/arguments.h helps with that. */
    const char *(*execute)(void *handle, const etd_call *call, const etd_delegate_run *run);
    /* Gives back what init took, other than memory from the arena. NULL: nothing. */
    void (*destroy)(void *handle);
} etd_delegate;

/* The backends linked in, then NULL. */
extern const etd_delegate *const etd_delegates[];

#endif
