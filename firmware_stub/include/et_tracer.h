/* The event tracer: ExecuTorch's EventTracer for C, on a compact log in the caller's buffer.
 *
 * Records of 16 bytes grow from the start of the buffer, interned names from its end (format:
 * et_log_format.h). An event is appended when it ends, as ExecuTorch does. The first record
 * or name that does not fit makes the log full: from then on the tracer appends nothing, not even what would
 * still fit, and counts what it drops, so that a log is always a true prefix of what happened. No heap; no
 * libc beyond memory functions. Every function accepts a NULL tracer and then does nothing. */
#ifndef ET_TRACER_H
#define ET_TRACER_H

#include <stdbool.h>
#include <stdint.h>

#include "et_log_format.h"

#define ET_UNSET_CHAIN (-1)
#define ET_UNSET_HANDLE 0u
#define ET_UNSET_DELEGATE_ID (-1)

typedef uint16_t et_name; /* id of an interned name, ET_LOG_NO_NAME for none */

/* Reads the 32-bit tick counter of clock domain 0. */
typedef uint32_t (*et_ticks_fn)(void);

/* How much is profiled: the scopes around a whole method (loading, Method::execute), or also what happens
 * within an instruction, where chain and debug handle are set. */
typedef enum {
    ET_PROFILE_METHOD_ONLY,
    ET_PROFILE_ALL_EVENTS,
} et_profiling_level;

/* What a full log does. */
typedef enum {
    ET_WHEN_FULL_STOP, /* takes nothing more: it is a true prefix of what happened */
    ET_WHEN_FULL_DROP_OLDEST_RUNS,
} et_when_full;

/* Which values are logged, as ExecuTorch names it. */
typedef enum {
    ET_DEBUG_NO_LOGGING,
    ET_DEBUG_PROGRAM_OUTPUTS,
    ET_DEBUG_INTERMEDIATE_OUTPUTS, /* the program's outputs too */
} et_debug_level;

/* What a value is to the program. */
typedef enum {
    ET_INTERMEDIATE_OUTPUT,
    ET_PROGRAM_OUTPUT,
} et_value_role;

/* A tensor to log. The tracer copies what it keeps. */
typedef struct {
    const void *data; /* NULL when it has no memory */
    uint32_t nbytes;
    const int32_t *sizes;   /* elements per dimension */
    const int32_t *strides; /* elements */
    uint8_t ndim;
    uint8_t dtype; /* any of ExecuTorch's scalar types: the tracer does not look into data */
} et_logged_tensor;

/* A value to log. */
typedef struct {
    uint8_t kind; /* ET_LOG_VALUE_* */
    union {
        int64_t integer;
        double number;
        bool boolean;
        et_logged_tensor tensor;
        struct {
            void (*tensor_at)(const void *context, uint32_t index, et_logged_tensor *tensor);
            const void *context;
            uint32_t count;
        } list;
    } as;
} et_logged_value;

/* Which profile events, and which values of delegates, to keep. What has an integer delegate id is judged by
 * that, anything else by its name or string delegate id, and what has no name is kept. */
typedef struct {
    const char *const *patterns; /* names to keep; a '*' at either end stands for anything */
    uint32_t pattern_count;      /* 0 keeps every name */
    bool by_id;                  /* keep only delegate ids from first_id to last_id */
    int32_t first_id;
    int32_t last_id;
} et_event_filter;

/* Scopes within each other that are remembered while they are open: Method::execute, OPERATOR_CALL, the
 * kernel, an event of its delegate. */
#define ET_TRACER_SCOPES 4

/* What et_end_profiling needs to know of the start. Kept by the caller, usually on its stack. */
typedef struct {
    et_name name;
    uint8_t choice; /* whether to log it, decided at the start */
    uint8_t depth;  /* events that were open when it started */
    int32_t chain;
    uint32_t handle;
    uint32_t start;
} et_event;

/* An event that has started. After a crash these tell what was going on (et_postmortem.h). */
typedef struct {
    et_event event;
    int32_t id; /* integer delegate id */
} et_open_scope;

/* Where the name of a pointer was last found. */
typedef struct {
    uint16_t from_end; /* its entry's distance from the end of the buffer; 0 when there is none */
    et_name name;
} et_recent_name;

#define ET_RECENT_BITS 4u

/* A tracer. Fields are private; read them through the functions below. */
typedef struct {
    uint8_t *buffer;
    uint32_t capacity;
    et_ticks_fn ticks;
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
    const et_event_filter *filter;
    uint16_t name_count;
    uint16_t number;
    uint8_t profiling_level;
    uint8_t debug_level;
    uint8_t when_full;
    bool selective; /* some events are left out by choice */
    bool full;
    uint8_t open_count; /* started events that have not ended; those beyond open[] count, too */
    et_open_scope open[ET_TRACER_SCOPES];
    et_recent_name recent[1u << ET_RECENT_BITS]; /* by a hash of the pointer */
} et_tracer;

/* The same for an event of a delegate; event.name is its string id. */
typedef struct {
    et_event event;
    int32_t id;
} et_delegate_event;

/* Starts an empty log in buffer[0..size). The buffer needs no alignment; size may be 0. */
void et_tracer_init(et_tracer *tracer, void *buffer, uint32_t size, et_ticks_fn ticks);

/* Tells the logs of several tracers apart: one per core or task, each with a buffer of its own, so that none
 * waits for another. A new tracer has number 0. */
void et_set_tracer_number(et_tracer *tracer, uint16_t number);

/* How much of the stack has been used at most, in bytes, and how much there is; 0 for unknown. The header of
 * the log says it. */
void et_set_stack_used(et_tracer *tracer, uint32_t used, uint32_t size);

/* What the clock of domain 0 reads now; 0 without a tracer. */
uint32_t et_read_ticks(const et_tracer *tracer);

/* Interns a name (cut to 255 bytes). Returns ET_LOG_NO_NAME for NULL, and for a new name when the log is
 * full.
 */
et_name et_intern(et_tracer *tracer, const char *name);

/* Begins a block; later events belong to it. */
void et_create_event_block(et_tracer *tracer, const char *name);

/* What to do when the log is full; a new tracer stops. Dropping the oldest runs keeps the newest: when a
 * block begins, whole blocks are given up until as much room is free as the largest has needed so far. The
 * first block, in which a method is loaded, and declared allocators stay. Bytes of tensors in the debug
 * buffer stay, too. It takes time when a block begins, for what stays moves up. */
void et_set_when_full(et_tracer *tracer, et_when_full when_full);

/* Index of the bundled input that the current and following blocks run; -1 for none. */
void et_set_bundled_input_index(et_tracer *tracer, int32_t index);

/* The chain and debug handle of events that state none themselves. */
void et_set_chain_debug_handle(et_tracer *tracer, int32_t chain, uint32_t handle);

/* Takes effect for events that start from now on; what a level leaves out is not counted. A new tracer
 * profiles all events. */
void et_set_profiling_level(et_tracer *tracer, et_profiling_level level);

/* Applies to events that start from now on, and counts those it leaves out, apart from drops. The filter
 * is not copied; NULL keeps everything. Names are interned whether or not their events are kept. Matching
 * takes time before the event's own start, so it adds to the scopes around it. */
void et_set_event_filter(et_tracer *tracer, const et_event_filter *filter);

/* Starts an event. With chain == ET_UNSET_CHAIN the stored chain and handle apply; otherwise both
 * arguments do. */
et_event et_start_profiling(et_tracer *tracer, const char *name, int32_t chain, uint32_t handle);
et_event et_start_profiling_interned(et_tracer *tracer, et_name name, int32_t chain, uint32_t handle);

/* Ends the event and appends it. */
void et_end_profiling(et_tracer *tracer, et_event event);

/* Starts an event that a delegate logs about itself, on clock domain 0. A delegate names its events by a
 * string (id ET_UNSET_DELEGATE_ID) or by an integer (name NULL), as its debug handle map does. The stored
 * chain and debug handle of this moment apply. */
et_delegate_event et_start_profiling_delegate(et_tracer *tracer, const char *name, int32_t id);

/* Ends the event and appends it with `length` bytes of metadata, which are copied; NULL for none. */
void et_end_profiling_delegate(et_tracer *tracer, et_delegate_event event, const void *metadata,
                               uint32_t length);

/* Appends an event after the fact, with ticks that the delegate read itself from clock domain `clock`
 * (0 to 254; its place among the clocks that et_target lists). The log keeps the low 32 bits of wider
 * counters. */
void et_log_profiling_delegate(et_tracer *tracer, const char *name, int32_t id, uint8_t clock, uint32_t start,
                               uint32_t end, const void *metadata, uint32_t length);

/* Declares an allocator and returns its id, from 1, or 0 when the log is full. What is tracked of allocator 0
 * is dropped. */
uint32_t et_track_allocator(et_tracer *tracer, const char *name);

/* Records an allocation of `size` bytes at `offset` within the allocator (ET_LOG_NO_OFFSET: unknown). The
 * record holds sizes up to 2^31 - 1, larger ones are written as that, and allocators up to 65535. */
void et_track_allocation(et_tracer *tracer, uint32_t allocator, uint32_t size, uint32_t offset);

/* Records that `size` bytes at `offset` were given back: an allocation of negative size, to -2^31 + 1. */
void et_track_free(et_tracer *tracer, uint32_t allocator, uint32_t size, uint32_t offset);

/* Records that `size` bytes were asked for and not available. */
void et_track_allocation_failure(et_tracer *tracer, uint32_t allocator, uint32_t size);

/* Where the bytes of logged tensors go. Without a buffer, or when it is full, the log still says that there
 * was a value and what shape it had; the missing bytes are counted as a dropped value. */
void et_set_debug_buffer(et_tracer *tracer, void *buffer, uint32_t size);

/* Bytes at the start of the debug buffer that logged tensors take. */
uint32_t et_debug_size(const et_tracer *tracer);

/* A new tracer logs no values. */
void et_set_debug_level(et_tracer *tracer, et_debug_level level);

/* Whether values of that role are logged, for a caller that would describe one in vain. */
bool et_logs_values(const et_tracer *tracer, et_value_role role);

/* Logs a value, if the debug level says so, at the stored chain and debug handle, and how long that took.
 * Call it outside of timed scopes: copying takes time. Returns whether the log has it now. */
bool et_log_evalue(et_tracer *tracer, et_value_role role, const et_logged_value *value);

/* Logs what a delegate computed, under its string or integer id, if debug level and event filter say so. */
bool et_log_intermediate_output_delegate(et_tracer *tracer, const char *name, int32_t id,
                                         const et_logged_value *value);

/* Empties log and debug buffer, once both have been read: what is logged from now on goes to the next chunk,
 * which begins between two events. Interned names stay valid, events that have started may end, and a log
 * that was full goes on; the current block and the allocators are carried over. Cumulative counts stay. */
void et_log_recycle(et_tracer *tracer);

/* True when records take half the space that names leave them, or tensors more than half of the debug buffer,
 * or the log is full. */
bool et_log_half_full(const et_tracer *tracer);

/* Size in bytes of the log's image as the host reads it: header, records, names. */
uint32_t et_log_size(const et_tracer *tracer);

/* Copies image bytes [offset, offset + length) to out; returns how many there were. */
uint32_t et_log_read(const et_tracer *tracer, uint32_t offset, void *out, uint32_t length);

#endif
