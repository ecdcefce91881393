// SPDX-License-Identifier: Apache-2.0
/* What the parts of the server share. A request travels: server.c decodes and dispatches it, its handler
 * fills the answer's body, server.c sends it. */
#ifndef ETD_SERVER_INTERNAL_H
#define ETD_SERVER_INTERNAL_H

#include "etd_server.h"
#include "stack.h"
#include "wire.h"

/* A request being served. */
typedef struct {
    const uint8_t *body;
    uint32_t size;
    uint32_t ticks; /* clock 0 when the request was decoded */
    uint16_t sequence;
    bool streamed;                    /* set by a handler: the answer is sent by etd_server_stream */
    void (*then)(etd_server *server); /* set by a handler: done when the answer is out */
} etd_request;

/* Fills the answer's body from its status on and returns OK, or fails with *error filled: the answer is
 * that error then. The request's body has the size stated with the handler. */
typedef etd_status (*etd_handler)(etd_server *server, etd_request *request, etd_writer *answer,
                                  etd_error *error);

/* server.c: an empty body in the send buffer, and the frame around it sent. */
etd_writer etd_server_begin_body(etd_server *server);
void etd_server_send(etd_server *server, uint32_t type, uint16_t sequence, const etd_writer *body);

/* Tells the port that an execution begins or has ended. */
void etd_server_quiet(etd_server *server, bool on);

/* status, three zero bytes, detail and message. */
void etd_server_write_error(etd_writer *writer, const etd_error *error);

/* server_session.c */
etd_status etd_server_hello(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);
etd_status etd_server_ping(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);
etd_status etd_server_status(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);
etd_status etd_server_reset(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);

void etd_server_clear_postmortem(etd_server *server);

/* server_baud.c. etd_server_watch_rate is told whether bytes came that completed no good frame; true while
 * the rate is in doubt, so that nobody sleeps over it. */
etd_status etd_server_baud(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);
bool etd_server_watch_rate(etd_server *server, bool noise);

/* server_upload.c; bodies of OPEN, WRITE and COMMIT begin with the region and its index. COMMIT's may go on
 * with the name of a method. */
#define COMMIT_SIZE (4u + ETD_LINK_DIGEST_SIZE)
/* OPEN's may go on with the sizes of an input of dynamic shape. */
#define OPEN_SIZE 8u
etd_status etd_server_open(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);
etd_status etd_server_write(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);
etd_status etd_server_commit(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);

/* server_model.c: the model's life. Loading makes the state READY or leaves it IDLE. */
void etd_server_drop_model(etd_server *server);
etd_status etd_server_load_model(etd_server *server, const char *method, etd_error *error);
void etd_server_describe_model(const etd_server *server, etd_writer *answer);

/* Gives an input of dynamic shape `count` sizes, i32 each, or the largest when there are none. One of static
 * shape takes none. */
etd_status etd_server_shape_input(etd_server *server, uint32_t index, const uint8_t *sizes, uint32_t count,
                                  etd_error *error);

/* Where the sizes of an input of dynamic shape are kept. */
int32_t *etd_server_input_sizes(const etd_server *server, uint32_t index);

/* server_run.c */
etd_status etd_server_run(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);

/* server_stream.c: sends the log and empties it, if that is wanted and the log is half full. */
void etd_server_stream_log(etd_server *server);

/* server_download.c. etd_server_stream sends one frame of a running download; false when there is none. */
etd_status etd_server_stat(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);
etd_status etd_server_read(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error);
bool etd_server_stream(etd_server *server);
void etd_server_stop_download(etd_server *server);

#endif
