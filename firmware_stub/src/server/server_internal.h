/* What the parts of the server share. A request travels: server.c decodes and dispatches it, its handler
 * fills the answer's body, server.c sends it. */
#ifndef ET_SERVER_INTERNAL_H
#define ET_SERVER_INTERNAL_H

#include "et_server.h"
#include "stack.h"
#include "wire.h"

/* A request being served. */
typedef struct {
    const uint8_t *body;
    uint32_t size;
    uint32_t ticks; /* clock 0 when the request was decoded */
    uint16_t sequence;
    bool streamed;                   /* set by a handler: the answer is sent by et_server_stream */
    void (*then)(et_server *server); /* set by a handler: done when the answer is out */
} et_request;

/* Fills the answer's body from its status on and returns OK, or fails with *error filled: the answer is
 * that error then. The request's body has the size stated with the handler. */
typedef et_status (*et_handler)(et_server *server, et_request *request, et_writer *answer, et_error *error);

/* server.c: an empty body in the send buffer, and the frame around it sent. */
et_writer et_server_begin_body(et_server *server);
void et_server_send(et_server *server, uint32_t type, uint16_t sequence, const et_writer *body);

/* Tells the port that an execution begins or has ended. */
void et_server_quiet(et_server *server, bool on);

/* status, three zero bytes, detail and message. */
void et_server_write_error(et_writer *writer, const et_error *error);

/* server_session.c */
et_status et_server_hello(et_server *server, et_request *request, et_writer *answer, et_error *error);
et_status et_server_ping(et_server *server, et_request *request, et_writer *answer, et_error *error);
et_status et_server_status(et_server *server, et_request *request, et_writer *answer, et_error *error);
et_status et_server_reset(et_server *server, et_request *request, et_writer *answer, et_error *error);

void et_server_clear_postmortem(et_server *server);

/* server_baud.c. et_server_watch_rate is told whether bytes came that completed no good frame; true while the
 * rate is in doubt, so that nobody sleeps over it. */
et_status et_server_baud(et_server *server, et_request *request, et_writer *answer, et_error *error);
bool et_server_watch_rate(et_server *server, bool noise);

/* server_upload.c; bodies of OPEN, WRITE and COMMIT begin with the region and its index. COMMIT's may go on
 * with the name of a method. */
#define COMMIT_SIZE (4u + ET_LINK_DIGEST_SIZE)
/* OPEN's may go on with the sizes of an input of dynamic shape. */
#define OPEN_SIZE 8u
et_status et_server_open(et_server *server, et_request *request, et_writer *answer, et_error *error);
et_status et_server_write(et_server *server, et_request *request, et_writer *answer, et_error *error);
et_status et_server_commit(et_server *server, et_request *request, et_writer *answer, et_error *error);

/* server_model.c: the model's life. Loading makes the state READY or leaves it IDLE. */
void et_server_drop_model(et_server *server);
et_status et_server_load_model(et_server *server, const char *method, et_error *error);
void et_server_describe_model(const et_server *server, et_writer *answer);

/* Gives an input of dynamic shape `count` sizes, i32 each, or the largest when there are none. One of static
 * shape takes none. */
et_status et_server_shape_input(et_server *server, uint32_t index, const uint8_t *sizes, uint32_t count,
                                et_error *error);

/* Where the sizes of an input of dynamic shape are kept. */
int32_t *et_server_input_sizes(const et_server *server, uint32_t index);

/* server_run.c */
et_status et_server_run(et_server *server, et_request *request, et_writer *answer, et_error *error);

/* server_stream.c: sends the log and empties it, if that is wanted and the log is half full. */
void et_server_stream_log(et_server *server);

/* server_download.c. et_server_stream sends one frame of a running download; false when there is none. */
et_status et_server_stat(et_server *server, et_request *request, et_writer *answer, et_error *error);
et_status et_server_read(et_server *server, et_request *request, et_writer *answer, et_error *error);
bool et_server_stream(et_server *server);
void et_server_stop_download(et_server *server);

#endif
