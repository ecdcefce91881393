// SPDX-License-Identifier: Apache-2.0
/* The link server: answers the host's requests over a port (docs/protocol.md).
 *
 * It owns the model's life on the device: bytes written, program checked, method loaded and executed under
 * the tracer, outputs and trace read back. All memory is the caller's. Nothing that arrives is trusted.
 *
 * Use: fill an etd_server_config, etd_server_init, then etd_server_poll forever. */
#ifndef ETD_SERVER_H
#define ETD_SERVER_H

#include "etd_frame.h"
#include "etd_port.h"
#include "etd_postmortem.h"
#include "etd_runtime.h"
#include "etd_tracer.h"

#define ETD_SERVER_MAX_INPUTS 8

/* The method that is loaded and run unless COMMIT names another one. */
#define ETD_SERVER_METHOD "forward"

/* Bytes of the longest name of a method that COMMIT may give, with its NUL. */
#define ETD_SERVER_METHOD_SIZE 48

/* Empty start/end pairs that etd_server_init times to learn the tracer's own cost. */
#define ETD_SERVER_PROBE_PAIRS 64

/* Pieces of an upload that may have arrived ahead of a missing one. */
#define ETD_SERVER_UPLOAD_PIECES 4

/* Bytes of the receive buffer for a given MTU: a whole encoded frame, decoded in place. */
#define ETD_SERVER_RECEIVE_SIZE(mtu) ((mtu) + (mtu) / 254u + 1u)

/* Memory and identity of a server; everything must outlive it. */
typedef struct {
    const etd_port *port;
    const etd_target *target;
    const char *build_id;
    uint8_t *model; /* aligned to 16 */
    uint32_t model_capacity;
    uint8_t *arena; /* aligned to 16 */
    uint32_t arena_capacity;
    uint8_t *inputs; /* staged inputs */
    uint32_t input_capacity;
    uint8_t *trace;
    uint32_t trace_capacity;
    uint8_t *debug; /* values of tensors */
    uint32_t debug_capacity;
    etd_postmortem *kept; /* survives a reset, if `trace` does, too; holds the tracer */
    uint8_t *receive;     /* ETD_SERVER_RECEIVE_SIZE(mtu) bytes */
    uint8_t *send;        /* mtu bytes */
    uint8_t *encoded;     /* ETD_FRAME_ENCODED_SIZE(mtu) bytes */
    uint32_t mtu;         /* ETD_LINK_MIN_MTU to 65535 */
} etd_server_config;

/* Bytes from start up to end. */
typedef struct {
    uint32_t start;
    uint32_t end;
} etd_range;

/* A region being written. */
typedef struct {
    uint8_t *bytes;
    uint32_t size;
    uint32_t next;                              /* bytes received without a hole */
    etd_range pieces[ETD_SERVER_UPLOAD_PIECES]; /* received behind a hole; they neither overlap nor touch */
    uint8_t piece_count;
    uint8_t region;
    uint8_t index;
    bool open;
} etd_upload;

/* Part of a region to be streamed out; done when offset == end. */
typedef struct {
    uint32_t offset;
    uint32_t end;
    uint16_t sequence;
    uint8_t region;
    uint8_t index;
} etd_download;

/* An input as staged between executions: its place in config.inputs. */
typedef struct {
    uint32_t offset;
    uint32_t capacity; /* of its bytes; behind them stand the sizes, i32 each, of one of dynamic shape */
    uint32_t size;     /* of the bytes that it has now */
    bool ready;
} etd_staged_input;

/* How the last run went. */
typedef struct {
    etd_error error; /* status OK when all executions were made */
    uint32_t id;
    uint32_t count; /* executions asked for */
    uint32_t completed;
    uint32_t trace_capacity; /* bytes the log may take */
    bool stream;             /* send the log while the run goes on */
    uint8_t debug_level;     /* ETD_LINK_DEBUG_LEVEL_* */
    uint8_t profiling_level; /* ETD_LINK_PROFILING_LEVEL_* */
    uint8_t when_full;       /* ETD_LINK_WHEN_FULL_* */
    bool repeatable;         /* a RUN with this id is a repetition */
} etd_run;

/* The rate of the line, when it is not the first of etd_target.bauds. */
typedef struct {
    uint32_t wanted;  /* by the BAUD being answered */
    uint32_t left;    /* ticks until the server goes back, if it hears no good frame */
    uint32_t seen_at; /* the tick when that was counted last */
    bool raised;
    bool doubted; /* `left` runs down */
} etd_rate;

/* A server. Fields are private. */
typedef struct {
    etd_server_config config;
    etd_frame_decoder decoder;
    etd_program program;
    etd_method method;
    etd_staged_input inputs[ETD_SERVER_MAX_INPUTS];
    etd_upload upload;
    etd_download downloads[ETD_LINK_READ_QUEUE]; /* in the order they were asked for */
    etd_run run;
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
    uint8_t postmortem; /* ETD_POSTMORTEM_CONDITION_*: what config.kept holds from before a reset */
    bool loaded;        /* method is valid */
} etd_server;

/* Looks at what a reset has left in config.kept, measures the tracer's own cost in the arena, and becomes
 * ready for a HELLO. */
void etd_server_init(etd_server *server, const etd_server_config *config);

/* Tells a host that may be waiting for an answer or for the end of a run that it waits in vain. */
void etd_server_announce(etd_server *server);

/* Handles what has arrived and sends the next part of a running download; returns without waiting for
 * more. Returns false when there was nothing to do. */
bool etd_server_poll(etd_server *server);

#endif
