// SPDX-License-Identifier: Apache-2.0
/* Shared by the parts of the server, which stand in this order: line.c, read.c, store.c, run.c and
 * dispatch.c. Each calls only what stands before it. dispatch.c finds the handler of a request; the handler
 * fills in the answer's body, and dispatch.c sends the answer. */
#ifndef ETD_SERVER_INTERNAL_H
#define ETD_SERVER_INTERNAL_H

#include "etd_server.h"
#include "stack.h"
#include "wire.h"

/* A request that is being handled. */
typedef struct {
    const uint8_t *body;
    uint32_t size;
    uint32_t ticks; /* tick counter of clock domain 0 when the request was decoded */
    uint16_t sequence;
    bool silent;                      /* set by a handler: no answer is sent now */
    void (*then)(etd_server *server); /* set by a handler: called after the answer has been sent */
} etd_request;

/* Handles a request. Writes the answer's body, starting with the status, and returns OK; or fails and fills
 * in *error, which is then sent as the answer. The body has the size listed in dispatch.c. */
typedef etd_status (*etd_handler)(etd_server *server, etd_request *request, etd_writer *answer,
                                  etd_error *error);

/* line.c */

/* Returns the tick counter of clock domain 0. */
static inline uint32_t etd_server_ticks(const etd_server *server) {
    return server->config.port->ticks(server->config.port->context);
}

/* Tells a watchdog that the device is not stuck. */
static inline void etd_server_alive(const etd_server *server) {
    const etd_port *port = server->config.port;
    if (port->alive != NULL) {
        port->alive(port->context);
    }
}

/* Tells the port that an execution begins or has ended. */
void etd_server_quiet(etd_server *server, bool on);

/* Returns the ticks of clock domain 0 since `earlier`, less than one period of the counter. */
uint32_t etd_server_ticks_since(const etd_server *server, uint32_t earlier);

/* A timer of `milliseconds` that starts now; returns true when it is over. Ask at least once per period of
 * the tick counter. */
etd_timer etd_server_start_timer(const etd_server *server, uint32_t milliseconds);
bool etd_server_timer_over(const etd_server *server, etd_timer *timer);

/* Starts an empty body in the send buffer, and sends a frame with the body. */
etd_writer etd_server_begin_body(etd_server *server);
void etd_server_send(etd_server *server, uint32_t type, uint16_t sequence, const etd_writer *body);

/* Writes status, three zero bytes, detail and message. */
void etd_server_write_error(etd_writer *writer, const etd_error *error);

/* Writes the answer to a request that has to wait for the end of the run. */
etd_status etd_server_write_busy(const etd_server *server, etd_writer *answer);

/* Serves the requests among the bytes that have arrived. Returns false if none arrived. */
bool etd_server_receive(etd_server *server);

/* Call etd_server_watch_rate on every poll; `noise` is true if bytes arrived without completing a good frame.
 * Returns true while a change of rate is unconfirmed, so the port must not sleep. */
etd_status etd_server_baud(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);
bool etd_server_watch_rate(etd_server *server, bool noise);

/* read.c. etd_server_stream sends one frame of the first pending download; returns false if there is none. */
etd_status etd_server_stat(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);
etd_status etd_server_read(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);
bool etd_server_stream(etd_server *server);
void etd_server_stop_download(etd_server *server);

/* store.c. The bodies of OPEN, WRITE and COMMIT begin with region and index. In COMMIT the name of a method
 * may follow. */
#define COMMIT_SIZE (4u + ETD_LINK_DIGEST_SIZE)
/* In OPEN the sizes of a dynamic input may follow. */
#define OPEN_SIZE 8u
etd_status etd_server_open(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);
etd_status etd_server_write(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);
etd_status etd_server_commit(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);

/* Unloads the model. The state is then IDLE. */
void etd_server_drop_model(etd_server *server);

/* Returns where the sizes of a dynamic input are staged. */
int32_t *etd_server_input_sizes(const etd_server *server, uint32_t index);

/* run.c. etd_server_start_run executes the run that a RUN has requested.
 *
 * The number of a test set, which runs of bundled programs send, and the indexes of counters may follow the
 * body of a RUN. */
#define RUN_SIZE 16u
etd_status etd_server_run(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);
etd_status etd_server_cancel(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);
etd_status etd_server_counters(etd_server *server, etd_request *request, etd_writer *answer,
                               etd_error *error);
void etd_server_start_run(etd_server *server);

/* Takes the body of a LOG_ACK: u32 run id, u32 chunk, u32 offset, u32 length. */
#define LOG_ACK_SIZE 16u
etd_status etd_server_log_ack(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);

void etd_server_clear_postmortem(etd_server *server);

#endif
