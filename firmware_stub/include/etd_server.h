// SPDX-License-Identifier: Apache-2.0
/* The link server: answers the host's requests over a port (docs/protocol.md).
 *
 * It receives a model, checks it, loads and executes its method under the tracer, and sends outputs and
 * trace. All memory is the caller's. Nothing received is trusted.
 *
 * A server belongs to one task, which also executes the model, and calls the port from it. Interrupts must
 * not call it; they fill the ring that etd_port.read empties (etd_serial.h).
 *
 * Use: fill in an etd_server_config, call etd_server_init, then call etd_server_poll forever. */
#ifndef ETD_SERVER_H
#define ETD_SERVER_H

#include "etd_frame.h"
#include "etd_port.h"
#include "etd_postmortem.h"
#include "etd_runtime.h"
#include "etd_tracer.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ETD_SERVER_MAX_INPUTS 8

/* Method that is loaded unless COMMIT names another one. */
#define ETD_SERVER_METHOD "forward"

/* Size in bytes of the longest method name in COMMIT, including its NUL. */
#define ETD_SERVER_METHOD_SIZE 48

/* Number of empty start/end pairs that etd_server_init times to measure the tracer's own cost. */
#define ETD_SERVER_PROBE_PAIRS 64

/* Number of parts of an upload that may be received ahead of a gap. */
#define ETD_SERVER_UPLOAD_PIECES 4

/* Size in bytes of the receive buffer for an MTU: one encoded frame, decoded in place. */
#define ETD_SERVER_RECEIVE_SIZE(mtu) ((mtu) + (mtu) / 254u + 1u)

/* A model in the firmware image. It is used where it lies: COMMIT with its digest loads it without an upload.
 */
typedef struct {
    const uint8_t *bytes; /* aligned to 16 bytes */
    uint32_t size;
    const uint8_t *digest; /* SHA-256, ETD_LINK_DIGEST_SIZE bytes */
    const char *name;
} etd_placed_model;

/* Memory and identity of a server. Everything must outlive the server. Capacities are in bytes. */
typedef struct {
    const etd_port *port;
    const etd_target *target;
    const char *build_id;
    uint8_t *model; /* buffer for uploads, aligned to 16 bytes; NULL if model_capacity is 0 */
    uint32_t model_capacity;
    uint8_t *arena; /* aligned to 16 bytes */
    uint32_t arena_capacity;
    uint8_t *inputs; /* staged inputs */
    uint32_t input_capacity;
    uint8_t *trace;
    uint32_t trace_capacity;
    uint8_t *debug; /* values of logged tensors */
    uint32_t debug_capacity;
    etd_postmortem *kept;           /* postmortem record and tracer; survives a reset if `trace` does */
    uint8_t *receive;               /* ETD_SERVER_RECEIVE_SIZE(mtu) bytes */
    uint8_t *send;                  /* mtu bytes */
    uint8_t *encoded;               /* ETD_FRAME_ENCODED_SIZE(mtu) bytes */
    uint32_t mtu;                   /* ETD_LINK_MIN_MTU to 65535 */
    const etd_placed_model *placed; /* NULL if there is none */
} etd_server_config;

/* Bytes [start, end). */
typedef struct {
    uint32_t start;
    uint32_t end;
} etd_range;

/* A region that is being written. */
typedef struct {
    uint8_t *bytes;
    uint32_t size;
    uint32_t next;                              /* bytes received without a gap */
    etd_range pieces[ETD_SERVER_UPLOAD_PIECES]; /* received after a gap; they neither overlap nor touch */
    uint8_t piece_count;
    uint8_t region;
    uint8_t index;
    bool open;
} etd_upload;

/* Part of a region that is being read; complete when offset == end. */
typedef struct {
    uint32_t offset;
    uint32_t end;
    uint16_t sequence;
    uint8_t region;
    uint8_t index;
} etd_download;

/* A staged input: where its bytes are in config.inputs. */
typedef struct {
    uint32_t offset;
    uint32_t capacity; /* of the data in bytes; a dynamic input has its sizes (i32 each) behind them */
    uint32_t size;     /* of the data in bytes, now */
    bool ready;
} etd_staged_input;

/* State and result of the last run. */
typedef struct {
    etd_error error; /* status is OK if all executions completed */
    uint32_t id;
    uint32_t count; /* executions requested */
    uint32_t completed;
    uint32_t trace_capacity; /* bytes the log may take; behind them a streamed log has a chunk's header */
    bool stream;             /* send the log during the run */
    bool crash;              /* fault on purpose in the second execution */
    bool continues;          /* clock and log go on from the run before */
    bool keeps_state;        /* the method is not loaded again */
    uint8_t debug_level;     /* ETD_LINK_DEBUG_LEVEL_* */
    uint8_t profiling_level; /* ETD_LINK_PROFILING_LEVEL_* */
    uint8_t when_full;       /* ETD_LINK_WHEN_FULL_* */
    int32_t bundled_input;   /* test set of the inputs; -1 for none */
    uint8_t counter_count;   /* hardware counters to read at each event */
    uint8_t counters[ETD_LOG_COUNTERS]; /* their indexes in the port's list */
    bool repeatable;                    /* another RUN with this id is a repetition */
    bool cancelled;                     /* no further execution begins */
    uint32_t elapsed_ms; /* since the run started; an execution counts at most one period of the counter */
    uint32_t seen_at;    /* tick at which `elapsed_ms` was last updated */
} etd_run;

/* A time that is counted down in steps, because the tick counter may wrap before it is over. */
typedef struct {
    uint64_t left;    /* ticks */
    uint32_t seen_at; /* tick at which `left` was last updated */
} etd_timer;

/* State of a change of the line rate. */
typedef struct {
    uint32_t wanted; /* requested by the BAUD that is being answered */
    etd_timer trial; /* until the server returns to the first rate unless it receives a good frame */
    bool raised;
    bool doubted; /* `trial` is counting down */
} etd_rate;

/* State of a streamed log, and the chunk that the host has not acknowledged. */
typedef struct {
    uint32_t record_count; /* of the chunk, at the start of the log */
    uint32_t names_size;
    uint32_t debug_size;
    uint32_t block_offset;        /* the tracer's, when the chunk ended */
    uint32_t received;            /* bytes that the host has received without a gap, as far as it said */
    etd_range again;              /* bytes that the host requests again */
    uint32_t record_count_before; /* when the server last looked at the log */
    uint32_t largest_step;        /* most records logged between two looks */
    etd_name sending_event;
    etd_name waiting_event;
    bool pending;      /* there is such a chunk */
    bool acknowledged; /* the host has all of it */
    bool answered;     /* the host has sent LOG_ACK since the server last did what it asks for */
    bool progressed;   /* the host has received more of it since then */
    bool undelivered;  /* the server has given up: the log stays in the buffer until that is full */
} etd_stream;

/* A server. Fields are private. */
typedef struct {
    etd_server_config config;
    void (*serve)(void *context, const uint8_t *frame); /* serves a request; the context is the server */
    etd_frame_decoder decoder;
    etd_program program;
    etd_method method;
    etd_staged_input inputs[ETD_SERVER_MAX_INPUTS];
    etd_upload upload;
    etd_download downloads[ETD_LINK_READ_QUEUE]; /* in the order requested */
    etd_run run;
    etd_stream stream;
    const etd_counter_source *counters; /* of the port; NULL if it has none */
    const uint8_t *model;               /* the model in use: in config.model or placed */
    uint32_t input_count;
    uint32_t model_size;
    uint32_t session;
    uint32_t epoch;
    uint32_t good_frames;
    uint32_t corrupt_frames;
    uint32_t probe_ticks;
    etd_rate rate;
    uint8_t download_count;
    uint8_t state;      /* ETD_LINK_STATE_* */
    uint8_t postmortem; /* ETD_POSTMORTEM_CONDITION_* of config.kept at start-up */
    bool loaded;        /* method is valid */
} etd_server;

/* Initializes a server. Examines config.kept for a postmortem and measures the tracer's own cost, using the
 * arena. `config` is copied; the memory it points to must stay valid. */
void etd_server_init(etd_server *server, const etd_server_config *config);

/* Sends NOTE_STARTED, so a host that waits for an answer or for the end of a run learns of the restart. */
void etd_server_announce(etd_server *server);

/* Handles received bytes and sends the next part of a pending download. Does not wait for more bytes. Returns
 * false if there was nothing to do. */
bool etd_server_poll(etd_server *server);

#ifdef __cplusplus
}
#endif

#endif
