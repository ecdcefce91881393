// SPDX-License-Identifier: Apache-2.0
/* Interface of a backend: its name as in the .pte file, and the functions that load and execute the parts of
 * a program compiled for it. docs/delegates.md shows how to write one. */
#ifndef ETD_DELEGATE_H
#define ETD_DELEGATE_H

#include "etd_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An option set at compile time. */
typedef struct {
    const char *key;
    const uint8_t *value; /* in the file, unaligned */
    uint32_t size;
} etd_compile_spec;

typedef struct etd_delegate_memory etd_delegate_memory;

/* Input of etd_delegate.init. The bytes are in the file and stay valid as long as the method. */
typedef struct {
    void *context;            /* of the backend */
    etd_tracer *tracer;       /* may be NULL */
    const uint8_t *processed; /* output of the backend's preprocess; aligned to 4 bytes */
    uint32_t size;
    uint32_t spec_count;
    etd_delegate_memory *memory; /* for etd_delegate_take and etd_delegate_spec */
} etd_delegate_source;

/* Returns option number `index`, which must be below spec_count. */
etd_compile_spec etd_delegate_spec(const etd_delegate_source *source, uint32_t index);

/* Allocates `size` bytes, aligned to 16, from the method's arena. They stay valid until the method is
 * unloaded. Returns NULL if the arena is too small. init must then fail with any status, and the runtime
 * reports the arena size needed. */
void *etd_delegate_take(const etd_delegate_source *source, uint32_t size);

/* Reserves `size` bytes of temporary memory for each execution. All delegates of a method share this memory.
 * Allocate it during execution with etd_delegate_take_temporary; each allocation is rounded up to 16
 * bytes. */
void etd_delegate_reserve_temporary(const etd_delegate_source *source, uint32_t size);

/* What an execution may use besides its arguments. */
typedef struct {
    etd_tracer *tracer;       /* may be NULL; chain and debug handle are already set */
    etd_temporary *temporary; /* for etd_delegate_take_temporary */
} etd_delegate_run;

/* Allocates `size` bytes, aligned to 16, until the execution ends. The contents are undefined. Returns NULL
 * and traces a failed allocation if init reserved too little. */
void *etd_delegate_take_temporary(const etd_delegate_run *run, uint32_t size);

/* A backend. The runtime calls init for each part of a method compiled for this backend, then execute any
 * number of times, then destroy. */
typedef struct {
    const char *name;
    /* Checks the data, which is untrusted, and stores the delegate's state in *handle. On failure it fills
     * *error and must release everything it took. */
    etd_status (*init)(const etd_delegate_source *source, void **handle, etd_error *error);
    /* Computes the delegated part. Returns NULL on success, otherwise a message. The arguments are the
     * inputs, then the outputs, unchecked; src/kernels/support/arguments.h has functions that check them. */
    const char *(*execute)(void *handle, const etd_call *call, const etd_delegate_run *run);
    /* Releases what init took, except memory of the arena. May be NULL. */
    void (*destroy)(void *handle);
    void *context; /* for init, such as a driver; may be NULL */
} etd_delegate;

/* The backends linked into the firmware, terminated by NULL. */
extern const etd_delegate *const etd_delegates[];

#ifdef __cplusplus
}
#endif

#endif
