// SPDX-License-Identifier: Apache-2.0
/* The event tracer: ExecuTorch's EventTracer in C, with a compact log in the caller's buffer.
 *
 * Records of 16 bytes grow from the start of the buffer, interned names from its end (etd_log_format.h). An
 * event is appended when it ends, as in ExecuTorch. The log is full as soon as one record or name does not
 * fit. The tracer then appends nothing more, even if it would fit, and counts what it drops. So a log is
 * always a complete prefix of the events.
 *
 * The tracer uses no heap and only memory functions of libc. Every function accepts a NULL tracer and then
 * does nothing.
 *
 * The tracer has no lock and no global state. Each task, core or interrupt level that traces needs a tracer
 * of its own, with its own buffer and number. An interrupt may call every function on its own tracer. Reading
 * a log counts as use: let the owner read it, or wait until the owner does not log.
 *
 * Where ETD_OFF is defined before this header is included, its functions, and those of etd_counters.h and
 * etd_etdump.h, do nothing and return 0. A program that calls no others contains no code of the tracer. */
#ifndef ETD_TRACER_H
#define ETD_TRACER_H

#include <stdbool.h>
#include <stdint.h>

#include "etd_log_format.h"
#include "etd_version.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ETD_UNSET_CHAIN (-1)
#define ETD_UNSET_HANDLE 0u
#define ETD_UNSET_DELEGATE_ID (-1)

typedef uint16_t etd_name; /* id of an interned name; ETD_LOG_NO_NAME if there is no name */

/* Returns the 32-bit tick counter of clock domain 0. `context` is the pointer given with the function. */
typedef uint32_t (*etd_ticks_fn)(void *context);

/* Events to profile: only scopes around a whole method (loading, Method::execute), or also events inside
 * instructions, which have a chain and a debug handle. */
typedef enum {
    ETD_PROFILE_METHOD_ONLY,
    ETD_PROFILE_ALL_EVENTS,
} etd_profiling_level;

/* Behavior when the log is full. DROP_OLDEST_RUNS is described at etd_set_when_full. */
typedef enum {
    ETD_WHEN_FULL_STOP, /* append nothing more */
    ETD_WHEN_FULL_DROP_OLDEST_RUNS,
} etd_when_full;

/* Values to log, with ExecuTorch's levels. */
typedef enum {
    ETD_DEBUG_NO_LOGGING,
    ETD_DEBUG_PROGRAM_OUTPUTS,
    ETD_DEBUG_INTERMEDIATE_OUTPUTS, /* and program outputs */
} etd_debug_level;

/* Role of a value in the program. */
typedef enum {
    ETD_INTERMEDIATE_OUTPUT,
    ETD_PROGRAM_OUTPUT,
} etd_value_role;

/* A tensor to log. The tracer copies its contents. */
typedef struct {
    const void *data; /* NULL if it has no memory */
    uint32_t nbytes;
    const int32_t *sizes;   /* elements per dimension */
    const int32_t *strides; /* elements */
    uint8_t ndim;
    uint8_t dtype; /* any ExecuTorch scalar type; the tracer does not interpret the data */
} etd_logged_tensor;

/* A value to log. The tracer copies its contents. */
typedef struct {
    uint8_t kind; /* ETD_LOG_VALUE_* */
    union {
        int64_t integer;
        double number;
        bool boolean;
        etd_logged_tensor tensor;
        struct {
            /* Describes the tensor at `index`, which is below `count`. */
            void (*tensor_at)(const void *context, uint32_t index, etd_logged_tensor *tensor);
            const void *context;
            uint32_t count;
        } list;
    } as;
} etd_logged_value;

/* Selects the profile events and delegate values to log. Events with an integer delegate id are matched by
 * that id, others by name or string delegate id. Events without a name are always logged. */
typedef struct {
    const char *const *patterns; /* names to log; '*' matches anything at the start or end */
    uint32_t pattern_count;      /* 0 matches every name */
    bool by_id;                  /* log only delegate ids from first_id to last_id */
    int32_t first_id;
    int32_t last_id;
} etd_event_filter;

/* Number of nested open scopes that are stored: Method::execute, OPERATOR_CALL, the kernel, and an event of
 * its delegate. */
#define ETD_TRACER_SCOPES 4

/* A started event. The caller keeps it, usually on its stack, and passes it to etd_end_profiling. Fields are
 * private. */
typedef struct {
    etd_name name;
    uint8_t choice; /* whether to log it, decided at the start */
    uint8_t depth;  /* number of events open when it started */
    int32_t chain;
    uint32_t handle;
    uint32_t start;
} etd_event;

/* An open event. After a crash these show what was running (etd_postmortem.h). */
typedef struct {
    etd_event event;
    int32_t id; /* integer delegate id */
} etd_open_scope;

/* Cache entry: where the name at a pointer was last found. */
typedef struct {
    const char *text;  /* the pointer; NULL if unused */
    uint16_t from_end; /* distance of the name from the end of the buffer */
    etd_name name;
} etd_recent_name;

/* How many pointers to names a tracer remembers (a power of two, at 8 bytes each on 32-bit CPUs), and for how
 * many names it has a hash (1 byte each). They change what a name costs if a program has more names, and must
 * be the same for all of its sources. */
#ifndef ETD_RECENT_NAMES
#define ETD_RECENT_NAMES 16u
#endif
#ifndef ETD_HASHED_NAMES
#define ETD_HASHED_NAMES 128u
#endif
/* The place of a pointer is in the upper half of its product with the first, or one of the next places. */
#define ETD_NAME_HASH 0x9E3779B1u
#define ETD_NAME_PLACES 8u

/* Stores the contents of a logged tensor behind the earlier ones. Returns their offset in bytes, or
 * ETD_LOG_NO_OFFSET if it does not take them. Their end must be below ETD_LOG_NO_OFFSET. */
typedef uint32_t (*etd_sink_fn)(void *context, const etd_logged_tensor *tensor);

/* A tracer. Fields are private; use the functions below. */
typedef struct etd_tracer etd_tracer;
struct etd_tracer {
    /* A debug probe reads the fields up to open_count: tracer_field in schema/compact_log.toml. */
    uint32_t magic;
    uint8_t *buffer;
    uint32_t capacity;
    uint8_t *debug;
    uint32_t debug_capacity;
    uint32_t record_count; /* the header of the log from here on, in its order */
    uint16_t name_count;
    uint16_t number;
    uint32_t names_size;
    uint32_t dropped_events;
    uint32_t dropped_blocks;
    uint32_t filtered_events;
    uint32_t dropped_values;
    uint32_t dropped_runs;
    uint32_t chunk;
    uint32_t first_record; /* number of this chunk's first record in the whole log, not counting copies */
    uint32_t debug_used;
    uint32_t stack_used;
    uint32_t stack_size; /* up to here */
    bool full;
    uint8_t open_count; /* open events, including those that do not fit into open[] */
    uint8_t choice;     /* of events that level and filter include */

    etd_ticks_fn ticks;
    uint32_t record_limit; /* records that fit below the names; 0 when the log is full */
    uint32_t carried;      /* copies of records of earlier chunks, at the start */
    uint32_t first_run; /* first record of the oldest run that may be dropped; UINT32_MAX if there is none */
    uint32_t largest_run;  /* records of the largest run so far */
    uint32_t block_offset; /* of the current block's record; UINT32_MAX before the first block */
    int32_t bundled_input_index;
    int32_t chain;
    uint32_t handle;
    uint32_t allocator_count;
    const etd_event_filter *filter;
    uint8_t profiling_level;
    uint8_t debug_level;
    uint8_t when_full;
    bool selective;      /* choices differ */
    void *ticks_context; /* behind what short instructions reach */
    etd_open_scope open[ETD_TRACER_SCOPES];
    etd_recent_name recent[ETD_RECENT_NAMES]; /* indexed by a hash of the pointer */
    uint8_t hashes[ETD_HASHED_NAMES];         /* of the texts of names, indexed by their ids */
    etd_sink_fn sink;                         /* NULL: contents of tensors go to the debug buffer */
    void *sink_context;
    /* Appends the counts of an event, if it has some (etd_counters.h). NULL: no event has. */
    void (*put_counts)(etd_tracer *tracer, const etd_event *event);
};

/* A started event of a delegate. event.name is its string id. */
typedef struct {
    etd_event event;
    int32_t id;
} etd_delegate_event;

/* Initializes a tracer with an empty log in buffer[0..size). The buffer must outlive the tracer. Up to
 * 3 bytes at its start stay unused if it is not aligned to 4 bytes. `size` is in bytes and may be 0.
 * `context` (may be NULL) is passed to `ticks`. */
void etd_tracer_init(etd_tracer *tracer, void *buffer, uint32_t size, etd_ticks_fn ticks, void *context);

/* Sets the number that identifies this tracer's log. Give each core or task a tracer with its own number and
 * buffer, so none has to wait for another. The default is 0. */
void etd_set_tracer_number(etd_tracer *tracer, uint16_t number);

/* Stores the stack's high-water mark and size, in bytes, for the header of the log; 0 if unknown. */
void etd_set_stack_used(etd_tracer *tracer, uint32_t used, uint32_t size);

/* Returns the tick counter of clock domain 0, or 0 if `tracer` is NULL. */
uint32_t etd_read_ticks(const etd_tracer *tracer);

/* Interns a name, truncated to 255 bytes; the string is copied. Returns ETD_LOG_NO_NAME if `name` is NULL, or
 * if it is new and the log is full. */
etd_name etd_intern(etd_tracer *tracer, const char *name);

/* Begins a block. Later events belong to it. */
void etd_create_event_block(etd_tracer *tracer, const char *name);

/* Sets the behavior for a full log; the default is to stop.
 *
 * ETD_WHEN_FULL_DROP_OLDEST_RUNS keeps the newest runs: when a block begins, the oldest blocks are dropped
 * until there is room for a block as large as the largest so far. The first block (loading), declared
 * allocators and tensor data in the debug buffer are not dropped. Records that stay are moved, so beginning a
 * block takes longer. */
void etd_set_when_full(etd_tracer *tracer, etd_when_full when_full);

/* Sets the bundled input index of the current and later blocks; -1 for none. */
void etd_set_bundled_input_index(etd_tracer *tracer, int32_t index);

/* Sets the chain and debug handle of events that do not specify their own. */
void etd_set_chain_debug_handle(etd_tracer *tracer, int32_t chain, uint32_t handle);

/* Sets which events to log, starting with the next event. Events left out by the level are not counted. The
 * default is all events. */
void etd_set_profiling_level(etd_tracer *tracer, etd_profiling_level level);

/* Sets a filter, starting with the next event; NULL logs everything. Filtered events are counted separately
 * from dropped ones. The filter is not copied and must outlive its use. Names are interned even if their
 * events are filtered. Matching takes place before the event's start time, so its time adds to the enclosing
 * scopes. */
void etd_set_event_filter(etd_tracer *tracer, const etd_event_filter *filter);

/* Pauses logging, or goes on. Blocks, events and allocations of a pause are counted as filtered, and its
 * values are left out as by their level; names and allocators are still declared. Pause and go on between two
 * blocks, because later events would belong to the block before the pause. An event that started before is
 * logged when it ends. */
void etd_set_paused(etd_tracer *tracer, bool paused);

/* Starts an event and returns it for etd_end_profiling. If `chain` is ETD_UNSET_CHAIN, the stored chain and
 * debug handle apply; otherwise `chain` and `handle` do. */
etd_event etd_start_profiling(etd_tracer *tracer, const char *name, int32_t chain, uint32_t handle);
etd_event etd_start_profiling_interned(etd_tracer *tracer, etd_name name, int32_t chain, uint32_t handle);

/* Does the same for a name that stays as it is while the tracer is in use, such as a string literal. A name
 * that was used before is then recognized by its pointer, without comparing its text. */
etd_event etd_start_profiling_fixed(etd_tracer *tracer, const char *name, int32_t chain, uint32_t handle);

/* Starts an event whose name is a string literal, with the stored chain and debug handle:
 *
 *     etd_event event = ETD_SCOPE(&tracer, "filter");
 *     filter();
 *     etd_end_profiling(&tracer, event); */
#define ETD_SCOPE(tracer, literal)                                                                           \
    etd_start_profiling_fixed((tracer), "" literal, ETD_UNSET_CHAIN, ETD_UNSET_HANDLE)

/* Ends an event and appends it to the log. */
void etd_end_profiling(etd_tracer *tracer, etd_event event);

/* Starts a delegate's event on clock domain 0. The delegate identifies it by a string (id
 * ETD_UNSET_DELEGATE_ID) or by an integer (name NULL), as in its debug handle map. The stored chain and debug
 * handle apply. */
etd_delegate_event etd_start_profiling_delegate(etd_tracer *tracer, const char *name, int32_t id);

/* Ends a delegate's event and appends it with `length` bytes of metadata, which are copied; NULL for none. */
void etd_end_profiling_delegate(etd_tracer *tracer, etd_delegate_event event, const void *metadata,
                                uint32_t length);

/* Appends a delegate's event that has already ended. `start` and `end` are ticks of clock domain `clock` (0
 * to 254, numbered as in etd_target). For counters wider than 32 bits pass the low 32 bits. The metadata is
 * copied; NULL for none. */
void etd_log_profiling_delegate(etd_tracer *tracer, const char *name, int32_t id, uint8_t clock,
                                uint32_t start, uint32_t end, const void *metadata, uint32_t length);

/* Declares an allocator. Returns its id, starting at 1, or 0 if the log is full. Allocations of allocator 0
 * are counted as dropped. */
uint32_t etd_track_allocator(etd_tracer *tracer, const char *name);

/* Logs an allocation of `size` bytes at `offset` within the allocator (ETD_LOG_NO_OFFSET if unknown). Sizes
 * above 2^31 - 1 are logged as 2^31 - 1. Allocator ids above 65535 are not supported. */
void etd_track_allocation(etd_tracer *tracer, uint32_t allocator, uint32_t size, uint32_t offset);

/* Logs that `size` bytes at `offset` were freed. The size is logged as a negative number, at least -2^31 +
 * 1. */
void etd_track_free(etd_tracer *tracer, uint32_t allocator, uint32_t size, uint32_t offset);

/* Logs a failed allocation of `size` bytes. */
void etd_track_allocation_failure(etd_tracer *tracer, uint32_t allocator, uint32_t size);

/* Sets the buffer for the contents of logged tensors; `size` is in bytes. The buffer must outlive the tracer.
 * Without a buffer, or when it is full, the log still has the value's type and shape, and the value is
 * counted as dropped. */
void etd_set_debug_buffer(etd_tracer *tracer, void *buffer, uint32_t size);

/* Sends the contents of logged tensors to `sink` instead of the debug buffer, such as to external memory;
 * NULL for the debug buffer again. Call it before anything is logged, and not with a log in chunks
 * (etd_log_recycle), because the host expects the offsets of each chunk to begin at 0. */
static inline void etd_set_data_sink(etd_tracer *tracer, etd_sink_fn sink, void *context) {
    tracer->sink = sink;
    tracer->sink_context = context;
    tracer->debug_used = 0;
}

/* Returns the number of bytes used at the start of the debug buffer, or the end of the contents in the sink.
 */
uint32_t etd_debug_size(const etd_tracer *tracer);

/* Sets which values to log. The default is none. */
void etd_set_debug_level(etd_tracer *tracer, etd_debug_level level);

/* Returns true if values of this role are logged. Use it to skip preparing a value. */
bool etd_logs_values(const etd_tracer *tracer, etd_value_role role);

/* Logs a value, if the debug level includes it, with the stored chain and debug handle and the time that
 * logging took. Call it outside of timed scopes, because copying takes time. Returns true if the value is in
 * the log. */
bool etd_log_evalue(etd_tracer *tracer, etd_value_role role, const etd_logged_value *value);

/* Logs a value computed by a delegate, by its string or integer id, if the debug level and the event filter
 * include it. Returns true if the value is in the log. */
bool etd_log_intermediate_output_delegate(etd_tracer *tracer, const char *name, int32_t id,
                                          const etd_logged_value *value);

/* Empties the log and the debug buffer after both have been read, and starts the next chunk. Call it between
 * two events.
 *
 * Interned names stay valid, open events may end later, and a full log accepts events again. The current
 * block and the allocators are repeated in the new chunk. Counts of dropped and filtered events are not
 * reset. */
void etd_log_recycle(etd_tracer *tracer);

/* Returns true if records use at least half of the space not taken by names, tensors use more than half of
 * the debug buffer, or the log is full. */
bool etd_log_half_full(const etd_tracer *tracer);

/* Returns the size in bytes of the log image: header, records, names. */
uint32_t etd_log_size(const etd_tracer *tracer);

/* Copies bytes [offset, offset + length) of the log image to `out`. Returns the number of bytes copied. */
uint32_t etd_log_read(const etd_tracer *tracer, uint32_t offset, void *out, uint32_t length);

#if defined(ETD_OFF) && !defined(ETD_TRACER_SOURCE)
#include "etd_tracer_off.h"
#endif

#ifdef __cplusplus
}
#endif

#endif
