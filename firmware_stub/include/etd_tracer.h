// SPDX-License-Identifier: Apache-2.0
/* The event tracer: ExecuTorch's EventTracer for C, on a compact log in the caller's buffer.
 *
 * Records of 16 bytes grow from the start of the buffer, interned names from its end (format:
 * etd_log_format.h). An event is appended when it ends, as ExecuTorch does. The first record
 * or name that does not fit makes the log full: from then on the tracer appends nothing, not even what would
 * still fit, and counts what it drops, so that a log is always a true prefix of what happened. No heap; no
 * libc beyond memory functions. Every function accepts a NULL tracer and then does nothing. */
#ifndef ETD_TRACER_H
#define ETD_TRACER_H

#include <stdbool.h>
#include <stdint.h>

#include "etd_log_format.h"

#define ETD_UNSET_CHAIN (-1)
#define ETD_UNSET_HANDLE 0u
#define ETD_UNSET_DELEGATE_ID (-1)

typedef uint16_t etd_name; /* id of an interned name, ETD_LOG_NO_NAME for none */

/* Reads the 32-bit tick counter of clock domain 0. */
typedef uint32_t (*etd_ticks_fn)(void);

/* How much is profiled: the scopes around a whole method (loading, Method::execute), or also what happens
 * within an instruction, where chain and debug handle are set. */
typedef enum {
    ETD_PROFILE_METHOD_ONLY,
    ETD_PROFILE_ALL_EVENTS,
} etd_profiling_level;

/* What a full log does. */
typedef enum {
    ETD_WHEN_FULL_STOP, /* takes nothing more: it is a true prefix of what happened */
    ETD_WHEN_FULL_DROP_OLDEST_RUNS,
} etd_when_full;

/* Which values are logged, as ExecuTorch names it. */
typedef enum {
    ETD_DEBUG_NO_LOGGING,
    ETD_DEBUG_PROGRAM_OUTPUTS,
    ETD_DEBUG_INTERMEDIATE_OUTPUTS, /* the program's outputs too */
} etd_debug_level;

/* What a value is to the program. */
typedef enum {
    ETD_INTERMEDIATE_OUTPUT,
    ETD_PROGRAM_OUTPUT,
} etd_value_role;

/* A tensor to log. The tracer copies what it keeps. */
typedef struct {
    const void *data; /* NULL when it has no memory */
    uint32_t nbytes;
    const int32_t *sizes;   /* elements per dimension */
    const int32_t *strides; /* elements */
    uint8_t ndim;
    uint8_t dtype; /* any of ExecuTorch's scalar types: the tracer does not look into data */
} etd_logged_tensor;

/* A value to log. */
typedef struct {
    uint8_t kind; /* ETD_LOG_VALUE_* */
    union {
        int64_t integer;
        double number;
        bool boolean;
        etd_logged_tensor tensor;
        struct {
            void (*tensor_at)(const void *context, uint32_t index, etd_logged_tensor *tensor);
            const void *context;
            uint32_t count;
        } list;
    } as;
} etd_logged_value;

/* Which profile events, and which values of delegates, to keep. What has an integer delegate id is judged by
 * that, anything else by its name or string delegate id, and what has no name is kept. */
typedef struct {
    const char *const *patterns; /* names to keep; a '*' at either end stands for anything */
    uint32_t pattern_count;      /* 0 keeps every name */
    bool by_id;                  /* keep only delegate ids from first_id to last_id */
    int32_t first_id;
    int32_t last_id;
} etd_event_filter;

/* Scopes within each other that are remembered while they are open: Method::execute, OPERATOR_CALL, the
 * kernel, an event of its delegate. */
#define ETD_TRACER_SCOPES 4

/* What etd_end_profiling needs to know of the start. Kept by the caller, usually on its stack. */
typedef struct {
    etd_name name;
    uint8_t choice; /* whether to log it, decided at the start */
    uint8_t depth;  /* events that were open when it started */
    int32_t chain;
    uint32_t handle;
    uint32_t start;
} etd_event;

/* An event that has started. After a crash these tell what was going on (etd_postmortem.h). */
typedef struct {
    etd_event event;
    int32_t id; /* integer delegate id */
} etd_open_scope;

/* Where the name of a pointer was last found. */
typedef struct {
    uint16_t from_end; /* its entry's distance from the end of the buffer; 0 when there is none */
    etd_name name;
} etd_recent_name;

#define ETD_RECENT_BITS 4u

/* A tracer. Fields are private; read them through the functions below. */
typedef struct {
    uint8_t *buffer;
    uint32_t capacity;
    etd_ticks_fn ticks;
    uint32_t record_count;
    uint32_t record_limit; /* as many as fit below the names; 0 when the log is full */
    uint32_t names_size;
    uint32_t dropped_events;
    uint32_t dropped_blocks;
    uint32_t filtered_events;
    uint32_t dropped_values;
    uint32_t dropped_runs;
    uint8_t *debug;
    uint32_t debug_capacity;
    uint32_t debug_used;
    uint32_t chunk;
    uint32_t first_record; /* number of this chunk's first record in the whole log, copies apart */
    uint32_t carried;      /* copies of earlier chunks' records, at the start */
    uint32_t first_run; /* record at which runs that may be dropped begin; UINT32_MAX before there are any */
    uint32_t largest_run; /* records that a run took at most */
    uint32_t stack_used;
    uint32_t stack_size;
    uint32_t block_offset; /* of the current block's record; UINT32_MAX before the first */
    int32_t bundled_input_index;
    int32_t chain;
    uint32_t handle;
    uint32_t allocator_count;
    const etd_event_filter *filter;
    uint16_t name_count;
    uint16_t number;
    uint8_t profiling_level;
    uint8_t debug_level;
    uint8_t when_full;
    bool selective; /* some events are left out by choice */
    bool full;
    uint8_t open_count; /* started events that have not ended; those beyond open[] count, too */
    etd_open_scope open[ETD_TRACER_SCOPES];
    etd_recent_name recent[1u << ETD_RECENT_BITS]; /* by a hash of the pointer */
} etd_tracer;

/* The same for an event of a delegate; event.name is its string id. */
typedef struct {
    etd_event event;
    int32_t id;
} etd_delegate_event;

/* Starts an empty log in buffer[0..size). The buffer needs no alignment; size may be 0. */
void etd_tracer_init(etd_tracer *tracer, void *buffer, uint32_t size, etd_ticks_fn ticks);

/* Tells the logs of several tracers apart: one per core or task, each with a buffer of its own, so that none
 * waits for another. A new tracer has number 0. */
void etd_set_tracer_number(etd_tracer *tracer, uint16_t number);

/* How much of the stack has been used at most, in bytes, and how much there is; 0 for unknown. The header of
 * the log says it. */
void etd_set_stack_used(etd_tracer *tracer, uint32_t used, uint32_t size);

/* What the clock of domain 0 reads now; 0 without a tracer. */
uint32_t etd_read_ticks(const etd_tracer *tracer);

/* Interns a name (cut to 255 bytes). Returns ETD_LOG_NO_NAME for NULL, and for a new name when the log is
 * full.
 */
etd_name etd_intern(etd_tracer *tracer, const char *name);

/* Begins a block; later events belong to it. */
void etd_create_event_block(etd_tracer *tracer, const char *name);

/* What to do when the log is full; a new tracer stops. Dropping the oldest runs keeps the newest: when a
 * block begins, whole blocks are given up until as much room is free as the largest has needed so far. The
 * first block, in which a method is loaded, and declared allocators stay. Bytes of tensors in the debug
 * buffer stay, too. It takes time when a block begins, for what stays moves up. */
void etd_set_when_full(etd_tracer *tracer, etd_when_full when_full);

/* Index of the bundled input that the current and following blocks run; -1 for none. */
void etd_set_bundled_input_index(etd_tracer *tracer, int32_t index);

/* The chain and debug handle of events that state none themselves. */
void etd_set_chain_debug_handle(etd_tracer *tracer, int32_t chain, uint32_t handle);

/* Takes effect for events that start from now on; what a level leaves out is not counted. A new tracer
 * profiles all events. */
void etd_set_profiling_level(etd_tracer *tracer, etd_profiling_level level);

/* Applies to events that start from now on, and counts those it leaves out, apart from drops. The filter
 * is not copied; NULL keeps everything. Names are interned whether or not their events are kept. Matching
 * takes time before the event's own start, so it adds to the scopes around it. */
void etd_set_event_filter(etd_tracer *tracer, const etd_event_filter *filter);

/* Starts an event. With chain == ETD_UNSET_CHAIN the stored chain and handle apply; otherwise both
 * arguments do. */
etd_event etd_start_profiling(etd_tracer *tracer, const char *name, int32_t chain, uint32_t handle);
etd_event etd_start_profiling_interned(etd_tracer *tracer, etd_name name, int32_t chain, uint32_t handle);

/* Ends the event and appends it. */
void etd_end_profiling(etd_tracer *tracer, etd_event event);

/* Starts an event that a delegate logs about itself, on clock domain 0. A delegate names its events by a
 * string (id ETD_UNSET_DELEGATE_ID) or by an integer (name NULL), as its debug handle map does. The stored
 * chain and debug handle of this moment apply. */
etd_delegate_event etd_start_profiling_delegate(etd_tracer *tracer, const char *name, int32_t id);

/* Ends the event and appends it with `length` bytes of metadata, which are copied; NULL for none. */
void etd_end_profiling_delegate(etd_tracer *tracer, etd_delegate_event event, const void *metadata,
                                uint32_t length);

/* Appends an event after the fact, with ticks that the delegate read itself from clock domain `clock`
 * (0 to 254; its place among the clocks that etd_target lists). The log keeps the low 32 bits of wider
 * counters. */
void etd_log_profiling_delegate(etd_tracer *tracer, const char *name, int32_t id, uint8_t clock,
                                uint32_t start, uint32_t end, const void *metadata, uint32_t length);

/* Declares an allocator and returns its id, from 1, or 0 when the log is full. What is tracked of allocator 0
 * is dropped. */
uint32_t etd_track_allocator(etd_tracer *tracer, const char *name);

/* Records an allocation of `size` bytes at `offset` within the allocator (ETD_LOG_NO_OFFSET: unknown). The
 * record holds sizes up to 2^31 - 1, larger ones are written as that, and allocators up to 65535. */
void etd_track_allocation(etd_tracer *tracer, uint32_t allocator, uint32_t size, uint32_t offset);

/* Records that `size` bytes at `offset` were given back: an allocation of negative size, to -2^31 + 1. */
void etd_track_free(etd_tracer *tracer, uint32_t allocator, uint32_t size, uint32_t offset);

/* Records that `size` bytes were asked for and not available. */
void etd_track_allocation_failure(etd_tracer *tracer, uint32_t allocator, uint32_t size);

/* Where the bytes of logged tensors go. Without a buffer, or when it is full, the log still says that there
 * was a value and what shape it had; the missing bytes are counted as a dropped value. */
void etd_set_debug_buffer(etd_tracer *tracer, void *buffer, uint32_t size);

/* Bytes at the start of the debug buffer that logged tensors take. */
uint32_t etd_debug_size(const etd_tracer *tracer);

/* A new tracer logs no values. */
void etd_set_debug_level(etd_tracer *tracer, etd_debug_level level);

/* Whether values of that role are logged, for a caller that would describe one in vain. */
bool etd_logs_values(const etd_tracer *tracer, etd_value_role role);

/* Logs a value, if the debug level says so, at the stored chain and debug handle, and how long that took.
 * Call it outside of timed scopes: copying takes time. Returns whether the log has it now. */
bool etd_log_evalue(etd_tracer *tracer, etd_value_role role, const etd_logged_value *value);

/* Logs what a delegate computed, under its string or integer id, if debug level and event filter say so. */
bool etd_log_intermediate_output_delegate(etd_tracer *tracer, const char *name, int32_t id,
                                          const etd_logged_value *value);

/* Empties log and debug buffer, once both have been read: what is logged from now on goes to the next chunk,
 * which begins between two events. Interned names stay valid, events that have started may end, and a log
 * that was full goes on; the current block and the allocators are carried over. Cumulative counts stay. */
void etd_log_recycle(etd_tracer *tracer);

/* True when records take half the space that names leave them, or tensors more than half of the debug buffer,
 * or the log is full. */
bool etd_log_half_full(const etd_tracer *tracer);

/* Size in bytes of the log's image as the host reads it: header, records, names. */
uint32_t etd_log_size(const etd_tracer *tracer);

/* Copies image bytes [offset, offset + length) to out; returns how many there were. */
uint32_t etd_log_read(const etd_tracer *tracer, uint32_t offset, void *out, uint32_t length);

#endif
