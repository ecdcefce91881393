// SPDX-License-Identifier: Apache-2.0
#include "server_internal.h"

#include <string.h>

#define POLL_BYTES 128u

/* In BATCH and its answer, before each part: u8 type, u8 0, u16 size. */
#define BATCH_HEADER_SIZE 4u

/* Requests and the sizes of their bodies. */
static const struct {
    uint8_t op;
    uint8_t body_size;
    bool longer;     /* the body may be longer */
    bool during_run; /* served during a run, too */
    bool in_batch;   /* served as a part of BATCH, too */
    etd_handler handler;
} requests[] = {
    {ETD_LINK_OP_HELLO, 8, false, true, false, etd_server_hello},
    {ETD_LINK_OP_PING, 0, false, true, false, etd_server_ping},
    {ETD_LINK_OP_STATUS, 0, false, true, true, etd_server_status},
    {ETD_LINK_OP_RESET, 1, false, false, false, etd_server_reset},
    {ETD_LINK_OP_BAUD, 4, false, false, false, etd_server_baud},
    {ETD_LINK_OP_COUNTERS, 1, false, false, false, etd_server_counters},
    {ETD_LINK_OP_OPEN, OPEN_SIZE, true, false, true, etd_server_open},
    {ETD_LINK_OP_WRITE, 8, true, false, true, etd_server_write},
    {ETD_LINK_OP_COMMIT, COMMIT_SIZE, true, false, true, etd_server_commit},
    {ETD_LINK_OP_RUN, RUN_SIZE, true, true, false, etd_server_run},
    {ETD_LINK_OP_CANCEL, 4, false, true, false, etd_server_cancel},
    {ETD_LINK_OP_LOG_ACK, LOG_ACK_SIZE, false, true, false, etd_server_log_ack},
    {ETD_LINK_OP_STAT, 4, false, false, true, etd_server_stat},
    {ETD_LINK_OP_READ, 12, false, false, true, etd_server_read},
};

/* Uses its own tracer, because the log of the other one may belong to a crash. */
static uint32_t measure_probe(const etd_server_config *config) {
    const etd_port *port = config->port;
    etd_tracer probe;
    etd_tracer *tracer = &probe;
    etd_tracer_init(tracer, config->arena, config->arena_capacity, port->ticks, port->context);
    etd_name name = etd_intern(tracer, "probe");
    uint32_t start = etd_read_ticks(tracer);
    for (uint32_t i = 0; i < ETD_SERVER_PROBE_PAIRS; i++) {
        etd_end_profiling(tracer,
                          etd_start_profiling_interned(tracer, name, ETD_UNSET_CHAIN, ETD_UNSET_HANDLE));
    }
    return etd_read_ticks(tracer) - start;
}

void etd_server_init(etd_server *server, const etd_server_config *config) {
    memset(server, 0, sizeof *server);
    server->config = *config;
    etd_frame_decoder_init(&server->decoder, config->receive, ETD_SERVER_RECEIVE_SIZE(config->mtu));
    const etd_port *port = config->port;
    uint32_t reason = port->reset_reason != NULL ? port->reset_reason(port->context) : 0u;
    server->postmortem = etd_postmortem_open(config->kept, config->build_id, config->trace,
                                             config->trace_capacity, reason, etd_stack_read(port));
    server->probe_ticks = measure_probe(config);
    etd_server_drop_model(server);
    etd_server_quiet(server, false);
}

void etd_server_quiet(etd_server *server, bool on) {
    const etd_port *port = server->config.port;
    if (port->quiet != NULL) {
        port->quiet(port->context, on);
    }
}

uint32_t etd_server_ticks_since(const etd_server *server, uint32_t earlier) {
    uint32_t bits = server->config.target->clock_bits;
    return (etd_server_ticks(server) - earlier) & (bits < 32 ? (1u << bits) - 1u : UINT32_MAX);
}

etd_timer etd_server_start_timer(const etd_server *server, uint32_t milliseconds) {
    const etd_target *target = server->config.target;
    uint64_t ticks =
        (uint64_t)target->clock_hz_numerator * milliseconds / 1000u / target->clock_hz_denominator;
    return (etd_timer){.left = ticks, .seen_at = etd_server_ticks(server)};
}

bool etd_server_timer_over(const etd_server *server, etd_timer *timer) {
    uint32_t passed = etd_server_ticks_since(server, timer->seen_at);
    timer->seen_at += passed;
    timer->left = passed < timer->left ? timer->left - passed : 0u;
    return timer->left == 0u;
}

etd_writer etd_server_begin_body(etd_server *server) {
    uint32_t around = ETD_LINK_HEADER_SIZE + ETD_LINK_CRC_SIZE;
    return (etd_writer){.bytes = server->config.send + ETD_LINK_HEADER_SIZE,
                        .capacity = server->config.mtu - around};
}

void etd_server_send(etd_server *server, uint32_t type, uint16_t sequence, const etd_writer *body) {
    const etd_server_config *config = &server->config;
    config->send[0] = 0;
    config->send[1] = (uint8_t)type;
    etd_put_u16(config->send + 2, sequence);
    uint32_t size = ETD_LINK_HEADER_SIZE + body->size + ETD_LINK_CRC_SIZE;
    config->port->write(config->port->context, config->encoded,
                        etd_frame_encode(config->send, size, config->encoded));
}

void etd_server_write_error(etd_writer *writer, const etd_error *error) {
    etd_write_u32(writer, error->status | (uint32_t)error->detail_kind << 8);
    etd_write_u32(writer, error->detail);
    etd_write_bytes(writer, error->message, (uint32_t)strlen(error->message));
}

static etd_status dispatch(etd_server *server, uint8_t op, bool in_batch, etd_request *request,
                           etd_writer *answer, etd_error *error) {
    for (uint32_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        if (requests[i].op != op || (in_batch && !requests[i].in_batch)) {
            continue;
        }
        uint32_t expected = requests[i].body_size;
        if (request->size < expected || (request->size > expected && !requests[i].longer)) {
            return etd_fail(error, ETD_LINK_STATUS_BAD_REQUEST, expected, "wrong body size", NULL);
        }
        if (server->state == ETD_LINK_STATE_RUNNING && !requests[i].during_run) {
            return etd_server_write_busy(server, answer);
        }
        return requests[i].handler(server, request, answer, error);
    }
    return etd_fail(error, ETD_LINK_STATUS_UNKNOWN_OP, op, "unknown request", NULL);
}

/* Serves a request; returns its status. A failure is written as the answer. */
static etd_status serve_request(etd_server *server, uint8_t op, bool in_batch, etd_request *request,
                                etd_writer *answer) {
    const etd_writer empty = *answer;
    etd_error error = {.status = ETD_LINK_STATUS_OK};
    etd_status status = dispatch(server, op, in_batch, request, answer, &error);
    if (status != ETD_LINK_STATUS_OK) {
        *answer = empty;
        etd_server_write_error(answer, &error);
    }
    return status;
}

/* Returns whether the parts of a BATCH fill its body. */
static bool is_batch(const uint8_t *body, uint32_t size) {
    uint32_t left = size;
    while (left >= BATCH_HEADER_SIZE) {
        uint32_t part = BATCH_HEADER_SIZE + etd_get_u16(body + (size - left) + 2);
        if (part > left) {
            return false;
        }
        left -= part;
    }
    return size > 0 && left == 0;
}

/* Serves the parts of a BATCH up to the first that fails. */
static void serve_batch(etd_server *server, etd_request *batch, etd_writer *answer) {
    etd_status status = ETD_LINK_STATUS_OK;
    if (!is_batch(batch->body, batch->size)) {
        etd_error error;
        (void)etd_fail(&error, ETD_LINK_STATUS_BAD_REQUEST, BATCH_HEADER_SIZE, "malformed parts", NULL);
        etd_server_write_error(answer, &error);
        return;
    }
    etd_write_status(answer, status);
    while (status == ETD_LINK_STATUS_OK && batch->size > 0) {
        uint8_t op = batch->body[0];
        uint32_t size = etd_get_u16(batch->body + 2);
        batch->body += BATCH_HEADER_SIZE;
        batch->size -= BATCH_HEADER_SIZE;
        uint8_t *header = etd_write(answer, BATCH_HEADER_SIZE);
        if (header == NULL) {
            return;
        }
        etd_request part = *batch;
        part.size = size;
        etd_writer body = {.bytes = answer->bytes + answer->size,
                           .capacity = answer->capacity - answer->size};
        status = serve_request(server, op, true, &part, &body);
        etd_put_u16(header, op);
        etd_put_u16(header + 2, (uint16_t)body.size);
        answer->size += body.size;
        batch->body += size;
        batch->size -= size;
    }
}

static void serve_frame(etd_server *server) {
    const uint8_t *frame = server->decoder.payload;
    uint8_t op = frame[1];
    /* Not a request but probably our own answer, on a line that echoes. */
    if ((op & ETD_LINK_RESPONSE) != 0) {
        return;
    }
    etd_request request = {
        .body = frame + ETD_LINK_HEADER_SIZE,
        .size = server->decoder.size - ETD_LINK_HEADER_SIZE - ETD_LINK_CRC_SIZE,
        .ticks = etd_server_ticks(server),
        .sequence = etd_get_u16(frame + 2),
    };
    etd_writer answer = etd_server_begin_body(server);
    if (op == ETD_LINK_OP_BATCH) {
        serve_batch(server, &request, &answer);
    } else {
        (void)serve_request(server, op, false, &request, &answer);
    }
    if (!request.silent) {
        etd_server_send(server, op | ETD_LINK_RESPONSE, request.sequence, &answer);
    }
    if (request.then != NULL) {
        request.then(server);
    }
}

/* Reports a corrupt frame at once, so that the host need not wait for a timeout. Without a HELLO the peer may
 * not be a host. */
static void report_damage(etd_server *server) {
    server->corrupt_frames++;
    if (server->session != 0) {
        etd_writer note = etd_server_begin_body(server);
        etd_write_u32(&note, server->corrupt_frames);
        etd_server_send(server, ETD_LINK_OP_NOTE_DAMAGED, 0, &note);
    }
}

static void take_byte(etd_server *server, uint8_t byte) {
    switch (etd_frame_decode(&server->decoder, byte)) {
    case ETD_FRAME_NOTHING:
    case ETD_FRAME_TEXT:
        break;
    case ETD_FRAME_GOOD:
        server->good_frames++;
        server->rate.doubted = false;
        serve_frame(server);
        break;
    default:
        report_damage(server);
        break;
    }
}

bool etd_server_receive(etd_server *server) {
    uint8_t bytes[POLL_BYTES];
    const etd_port *port = server->config.port;
    uint32_t count = port->read(port->context, bytes, sizeof bytes);
    for (uint32_t i = 0; i < count; i++) {
        take_byte(server, bytes[i]);
    }
    return count > 0;
}

bool etd_server_poll(etd_server *server) {
    uint32_t good = server->good_frames;
    bool received = etd_server_receive(server);
    /* A run starts when all requests that arrived with its RUN are answered. */
    if (server->state == ETD_LINK_STATE_RUNNING) {
        etd_server_start_run(server);
    }
    bool doubtful = etd_server_watch_rate(server, received && server->good_frames == good);
    return received || etd_server_stream(server) || doubtful;
}
