/* The link server: answers the host's requests over a port (docs/protocol.md).
 *
 * It owns the model's life on the device: bytes written, program checked, method loaded and executed under
 * the tracer, outputs and trace read back. All memory is the caller's. Nothing that arrives is trusted.
 *
 * Use: fill an et_server_config, et_server_init, then et_server_poll forever. */
#ifndef ET_SERVER_H
#define ET_SERVER_H

#include "et_frame.h"
#include "et_port.h"
#include "et_postmortem.h"
#include "et_runtime.h"
#include "et_tracer.h"

#define ET_SERVER_MAX_INPUTS 8

/* The method that is loaded and run unless COMMIT names another one. */
#define ET_SERVER_METHOD "forward"

/* Bytes of the longest name of a method that COMMIT may give, with its NUL. */
#define ET_SERVER_METHOD_SIZE 48

/* Empty start/end pairs that et_server_init times to learn the tracer's own cost. */
#define ET_SERVER_PROBE_PAIRS 64

/* Pieces of an upload that may have arrived ahead of a missing one. */
#define ET_SERVER_UPLOAD_PIECES 4

/* Bytes of the receive buffer for a given MTU: a whole encoded frame, decoded in place. */
#define ET_SERVER_RECEIVE_SIZE(mtu) ((mtu) + (mtu) / 254u + 1u)

/* Memory and identity of a server; everything must outlive it. */
typedef struct {
    const et_port *port;
    const et_target *target;
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
    et_postmortem *kept; /* survives a reset, if `trace` does, too; holds the tracer */
    uint8_t *receive;    /* ET_SERVER_RECEIVE_SIZE(mtu) bytes */
    uint8_t *send;       /* mtu bytes */
    uint8_t *encoded;    /* ET_FRAME_ENCODED_SIZE(mtu) bytes */
    uint32_t mtu;        /* ET_LINK_MIN_MTU to 65535 */
} et_server_config;

/* Bytes from start up to end. */
typedef struct {
    uint32_t start;
    uint32_t end;
} et_range;

/* A region being written. */
typedef struct {
    uint8_t *bytes;
    uint32_t size;
    uint32_t next;                            /* bytes received without a hole */
    et_range pieces[ET_SERVER_UPLOAD_PIECES]; /* received behind a hole; they neither overlap nor touch */
    uint8_t piece_count;
    uint8_t region;
    uint8_t index;
    bool open;
} et_upload;

/* Part of a region to be streamed out; done when offset == end. */
typedef struct {
    uint32_t offset;
    uint32_t end;
    uint16_t sequence;
    uint8_t region;
    uint8_t index;
} et_download;

/* An input as staged between executions: its place in config.inputs. */
typedef struct {
    uint32_t offset;
    uint32_t capacity; /* of its bytes; behind them stand the sizes, i32 each, of one of dynamic shape */
    uint32_t size;     /* of the bytes that it has now */
    bool ready;
} et_staged_input;

/* How the last run went. */
typedef struct {
    et_error error; /* status OK when all executions were made */
    uint32_t id;
    uint32_t count; /* executions asked for */
    uint32_t completed;
    uint32_t trace_capacity; /* bytes the log may take */
    bool stream;             /* send the log while the run goes on */
    uint8_t debug_level;     /* ET_LINK_DEBUG_LEVEL_* */
    uint8_t profiling_level; /* ET_LINK_PROFILING_LEVEL_* */
    uint8_t when_full;       /* ET_LINK_WHEN_FULL_* */
    bool repeatable;         /* a RUN with this id is a repetition */
} et_run;

/* The rate of the line, when it is not the first of et_target.bauds. */
typedef struct {
    uint32_t wanted;  /* by the BAUD being answered */
    uint32_t left;    /* ticks until the server goes back, if it hears no good frame */
    uint32_t seen_at; /* the tick when that was counted last */
    bool raised;
    bool doubted; /* `left` runs down */
} et_rate;

/* A server. Fields are private. */
typedef struct {
    et_server_config config;
    et_frame_decoder decoder;
    et_program program;
    et_method method;
    et_staged_input inputs[ET_SERVER_MAX_INPUTS];
    et_upload upload;
    et_download downloads[ET_LINK_READ_QUEUE]; /* in the order they were asked for */
    et_run run;
    uint32_t input_count;
    uint32_t model_size;
    uint32_t session;
    uint32_t epoch;
    uint32_t good_frames;
    uint32_t corrupt_frames;
    uint32_t probe_ticks;
    et_rate rate;
    uint8_t download_count;
    uint8_t state;      /* ET_LINK_STATE_* */
    uint8_t postmortem; /* ET_POSTMORTEM_CONDITION_*: what config.kept holds from before a reset */
    bool loaded;        /* method is valid */
} et_server;

/* Looks at what a reset has left in config.kept, measures the tracer's own cost in the arena, and becomes
 * ready for a HELLO. */
void et_server_init(et_server *server, const et_server_config *config);

/* Tells a host that may be waiting for an answer or for the end of a run that it waits in vain. */
void et_server_announce(et_server *server);

/* Handles what has arrived and sends the next part of a running download; returns without waiting for
 * more. Returns false when there was nothing to do. */
bool et_server_poll(et_server *server);

#endif
