/* What a backend is: a name as the .pte file spells it, and what it does with the parts of a program that
 * were compiled for it ahead of time. docs/delegates.md shows how to write one. */
#ifndef ET_DELEGATE_H
#define ET_DELEGATE_H

#include "et_kernel.h"

/* An option given ahead of time. */
typedef struct {
    const char *key;
    const uint8_t *value; /* in the file, of any alignment */
    uint32_t size;
} et_compile_spec;

typedef struct et_delegate_memory et_delegate_memory;

/* What one delegate of a method is made from. The bytes are the file's and stay as long as the method. */
typedef struct {
    et_tracer *tracer;        /* may be NULL */
    const uint8_t *processed; /* what the backend's preprocess returned; aligned to 4 bytes */
    uint32_t size;
    uint32_t spec_count;
    et_delegate_memory *memory; /* for et_delegate_take and et_delegate_spec */
} et_delegate_source;

/* Option number `index`, below spec_count. */
et_compile_spec et_delegate_spec(const et_delegate_source *source, uint32_t index);

/* Takes `size` bytes, aligned to 16, from the method's arena, for as long as the method is loaded. NULL when
 * they are not there: init then fails in whatever way, and the runtime says how large the arena must be. */
void *et_delegate_take(const et_delegate_source *source, uint32_t size);

/* Asks that each execution can take `size` bytes of temporary memory, from which all delegates of a method
 * take in turns. Pieces are aligned to 16 bytes, and count as if their sizes were. */
void et_delegate_reserve_temporary(const et_delegate_source *source, uint32_t size);

/* What an execution may use besides its arguments. */
typedef struct {
    et_tracer *tracer;       /* may be NULL; chain and instruction are set already */
    et_temporary *temporary; /* for et_delegate_take_temporary */
} et_delegate_run;

/* Takes `size` bytes, aligned to 16, until the execution ends; what they hold is undefined. NULL, and a
 * failure in the trace, when more is taken than init has reserved. */
void *et_delegate_take_temporary(const et_delegate_run *run, uint32_t size);

/* A backend. The runtime calls init when it loads a method, once for each part compiled for the backend, then
 * execute any number of times, then destroy. */
typedef struct {
    const char *name;
    /* Checks all that it was given, which nobody has, and sets *handle; or fails and leaves nothing behind.
     */
    et_status (*init)(const et_delegate_source *source, void **handle, et_error *error);
    /* Computes, and returns NULL; or returns why it could not. The arguments are inputs, then outputs; they
     * have not been checked, and src/kernels/arguments.h helps with that. */
    const char *(*execute)(void *handle, const et_call *call, const et_delegate_run *run);
    /* Gives back what init took, other than memory from the arena. NULL: nothing. */
    void (*destroy)(void *handle);
} et_delegate;

/* The backends linked in, then NULL. */
extern const et_delegate *const et_delegates[];

#endif
