#include "server_internal.h"

#include <string.h>

#define POLL_BYTES 128u

/* The requests and the sizes of their bodies. */
static const struct {
    uint8_t op;
    uint8_t body_size;
    bool longer; /* more bytes may follow */
    et_handler handler;
} requests[] = {
    {ET_LINK_OP_HELLO, 8, false, et_server_hello},   {ET_LINK_OP_PING, 0, false, et_server_ping},
    {ET_LINK_OP_STATUS, 0, false, et_server_status}, {ET_LINK_OP_RESET, 1, false, et_server_reset},
    {ET_LINK_OP_BAUD, 4, false, et_server_baud},     {ET_LINK_OP_OPEN, OPEN_SIZE, true, et_server_open},
    {ET_LINK_OP_WRITE, 8, true, et_server_write},    {ET_LINK_OP_COMMIT, COMMIT_SIZE, true, et_server_commit},
    {ET_LINK_OP_RUN, 16, false, et_server_run},      {ET_LINK_OP_STAT, 4, false, et_server_stat},
    {ET_LINK_OP_READ, 12, false, et_server_read},
};

/* With a tracer of its own: the other one's log may be what a crash has left. */
static uint32_t measure_probe(const et_server_config *config) {
    et_ticks_fn ticks = config->port->ticks;
    et_tracer probe;
    et_tracer *tracer = &probe;
    et_tracer_init(tracer, config->arena, config->arena_capacity, ticks);
    et_name name = et_intern(tracer, "probe");
    uint32_t start = ticks();
    for (uint32_t i = 0; i < ET_SERVER_PROBE_PAIRS; i++) {
        et_end_profiling(tracer, et_start_profiling_interned(tracer, name, ET_UNSET_CHAIN, ET_UNSET_HANDLE));
    }
    return ticks() - start;
}

void et_server_init(et_server *server, const et_server_config *config) {
    memset(server, 0, sizeof *server);
    server->config = *config;
    et_frame_decoder_init(&server->decoder, config->receive, ET_SERVER_RECEIVE_SIZE(config->mtu));
    const et_port *port = config->port;
    uint32_t reason = port->reset_reason != NULL ? port->reset_reason() : 0u;
    server->postmortem = et_postmortem_open(config->kept, config->build_id, config->trace,
                                            config->trace_capacity, reason, et_stack_read(port));
    server->probe_ticks = measure_probe(config);
    et_server_drop_model(server);
    et_server_quiet(server, false);
}

void et_server_quiet(et_server *server, bool on) {
    if (server->config.port->quiet != NULL) {
        server->config.port->quiet(on);
    }
}

et_writer et_server_begin_body(et_server *server) {
    uint32_t around = ET_LINK_HEADER_SIZE + ET_LINK_CRC_SIZE;
    return (et_writer){.bytes = server->config.send + ET_LINK_HEADER_SIZE,
                       .capacity = server->config.mtu - around};
}

void et_server_send(et_server *server, uint32_t type, uint16_t sequence, const et_writer *body) {
    const et_server_config *config = &server->config;
    config->send[0] = 0;
    config->send[1] = (uint8_t)type;
    et_put_u16(config->send + 2, sequence);
    uint32_t size = ET_LINK_HEADER_SIZE + body->size + ET_LINK_CRC_SIZE;
    config->port->write(config->encoded, et_frame_encode(config->send, size, config->encoded));
}

void et_server_write_error(et_writer *writer, const et_error *error) {
    et_write_status(writer, error->status);
    et_write_u32(writer, error->detail);
    et_write_bytes(writer, error->message, (uint32_t)strlen(error->message));
}

static et_status dispatch(et_server *server, uint8_t op, et_request *request, et_writer *answer,
                          et_error *error) {
    for (uint32_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        if (requests[i].op != op) {
            continue;
        }
        uint32_t expected = requests[i].body_size;
        if (request->size < expected || (request->size > expected && !requests[i].longer)) {
            return et_fail(error, ET_LINK_STATUS_BAD_REQUEST, expected, "wrong size of body", NULL);
        }
        return requests[i].handler(server, request, answer, error);
    }
    return et_fail(error, ET_LINK_STATUS_UNKNOWN_OP, op, "no such request", NULL);
}

static void serve_frame(et_server *server) {
    const uint8_t *frame = server->decoder.payload;
    uint8_t op = frame[1];
    /* Not a request: most likely our own answer, on a line that echoes. */
    if ((op & ET_LINK_RESPONSE) != 0) {
        return;
    }
    et_request request = {
        .body = frame + ET_LINK_HEADER_SIZE,
        .size = server->decoder.size - ET_LINK_HEADER_SIZE - ET_LINK_CRC_SIZE,
        .ticks = server->config.port->ticks(),
        .sequence = et_get_u16(frame + 2),
    };
    et_error error = {.status = ET_LINK_STATUS_OK};
    et_writer answer = et_server_begin_body(server);
    et_status status = dispatch(server, op, &request, &answer, &error);
    if (status != ET_LINK_STATUS_OK) {
        answer = et_server_begin_body(server);
        et_server_write_error(&answer, &error);
    }
    if (!request.streamed) {
        et_server_send(server, op | ET_LINK_RESPONSE, request.sequence, &answer);
    }
    if (request.then != NULL) {
        request.then(server);
    }
}

/* Tells the host at once, so that it need not wait until an answer is overdue. One that has not said HELLO
 * may be no host. */
static void report_damage(et_server *server) {
    server->corrupt_frames++;
    if (server->session != 0) {
        et_writer note = et_server_begin_body(server);
        et_write_u32(&note, server->corrupt_frames);
        et_server_send(server, ET_LINK_OP_NOTE_DAMAGED, 0, &note);
    }
}

static void take_byte(et_server *server, uint8_t byte) {
    switch (et_frame_decode(&server->decoder, byte)) {
    case ET_FRAME_NOTHING:
    case ET_FRAME_TEXT:
        break;
    case ET_FRAME_GOOD:
        server->good_frames++;
        server->rate.doubted = false;
        serve_frame(server);
        break;
    default:
        report_damage(server);
        break;
    }
}

bool et_server_poll(et_server *server) {
    uint8_t bytes[POLL_BYTES];
    uint32_t good = server->good_frames;
    uint32_t count = server->config.port->read(bytes, sizeof bytes);
    for (uint32_t i = 0; i < count; i++) {
        take_byte(server, bytes[i]);
    }
    bool doubtful = et_server_watch_rate(server, count > 0 && server->good_frames == good);
    return count > 0 || et_server_stream(server) || doubtful;
}
