// SPDX-License-Identifier: Apache-2.0
/* Finds the handler of each request and sends its answer; identity and state of the device. */
#include <string.h>

#include "etd_kernel.h"
#include "server_internal.h"

/* In BATCH and its answer, before each part: u8 type, u8 0, u16 size. */
#define BATCH_HEADER_SIZE 4u

/* Of a placed model: bytes of its digest, and the longest name. */
#define PLACED_DIGEST_SIZE 8u
#define PLACED_NAME_SIZE 32u

static void write_text_tag(etd_writer *answer, uint32_t tag, const char *text) {
    size_t length = strlen(text);
    uint32_t cut = length > UINT8_MAX ? UINT8_MAX : (uint32_t)length;
    etd_write_u8(answer, tag);
    etd_write_u8(answer, cut);
    etd_write_bytes(answer, text, cut);
}

static void write_u32_tag(etd_writer *answer, uint32_t tag, uint32_t value) {
    etd_write_u8(answer, tag);
    etd_write_u8(answer, 4);
    etd_write_u32(answer, value);
}

static void write_clock_tag(etd_writer *answer, const etd_clock *clock) {
    uint32_t length = (uint32_t)strlen(clock->name);
    etd_write_u8(answer, ETD_LINK_INFO_CLOCK);
    etd_write_u8(answer, 12u + length);
    etd_write_u8(answer, clock->bits);
    etd_write_u8(answer, clock->down);
    etd_write_u16(answer, 0);
    etd_write_u32(answer, clock->hz_numerator);
    etd_write_u32(answer, clock->hz_denominator);
    etd_write_bytes(answer, clock->name, length);
}

static void write_clock_tags(etd_writer *answer, const etd_target *target) {
    etd_clock first = {target->clock_name, target->clock_hz_numerator, target->clock_hz_denominator,
                       target->clock_bits, false};
    write_clock_tag(answer, &first);
    for (uint32_t i = 0; i < target->more_clock_count; i++) {
        write_clock_tag(answer, &target->more_clocks[i]);
    }
}

static void write_probe_tag(etd_writer *answer, uint32_t ticks) {
    etd_write_u8(answer, ETD_LINK_INFO_PROBE_COST);
    etd_write_u8(answer, 8);
    etd_write_u32(answer, ticks);
    etd_write_u32(answer, ETD_SERVER_PROBE_PAIRS);
}

static void write_bauds_tag(etd_writer *answer, const etd_server_config *config) {
    uint32_t count = config->port->set_baud != NULL ? config->target->baud_count : 0;
    if (count > 0) {
        etd_write_u8(answer, ETD_LINK_INFO_BAUDS);
        etd_write_u8(answer, 4u * count);
    }
    for (uint32_t i = 0; i < count; i++) {
        etd_write_u32(answer, config->target->bauds[i]);
    }
}

static void write_last_run_tag(etd_writer *answer, const etd_server *server) {
    etd_write_u8(answer, ETD_LINK_INFO_LAST_RUN);
    etd_write_u8(answer, 5);
    etd_write_u8(answer, server->state);
    etd_write_u32(answer, server->run.id);
}

/* The last tag, because the name takes what room is left. Left out if there is none at all. */
static void write_placed_tag(etd_writer *answer, const etd_placed_model *placed) {
    const uint32_t needed = answer->size + 2u + PLACED_DIGEST_SIZE;
    if (placed == NULL || needed > answer->capacity) {
        return;
    }
    uint32_t length = (uint32_t)strlen(placed->name);
    uint32_t room = answer->capacity - needed;
    uint32_t cut = length < room ? length : room;
    cut = cut < PLACED_NAME_SIZE ? cut : PLACED_NAME_SIZE;
    etd_write_u8(answer, ETD_LINK_INFO_PLACED_MODEL);
    etd_write_u8(answer, PLACED_DIGEST_SIZE + cut);
    etd_write_bytes(answer, placed->digest, PLACED_DIGEST_SIZE);
    etd_write_bytes(answer, placed->name, cut);
}

static void write_postmortem_tag(etd_writer *answer, uint8_t condition) {
    if (condition != ETD_POSTMORTEM_CONDITION_NONE) {
        etd_write_u8(answer, ETD_LINK_INFO_POSTMORTEM);
        etd_write_u8(answer, 1);
        etd_write_u8(answer, condition);
    }
}

static etd_status hello(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error) {
    if (request->body[0] > ETD_LINK_VERSION || request->body[1] < ETD_LINK_VERSION) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_VERSION, ETD_LINK_VERSION, "unsupported link version",
                        NULL);
    }
    if (server->state == ETD_LINK_STATE_RUNNING) {
        return etd_server_write_busy(server, answer);
    }
    const etd_server_config *config = &server->config;
    uint32_t session = etd_get_u32(request->body + 4);
    /* A new session may use the same run ids again. */
    if (session != server->session) {
        server->run.repeatable = false;
    }
    server->session = session;
    etd_server_stop_download(server);

    /* The host does not know the MTU before it has read this answer. */
    const uint32_t around = ETD_LINK_HEADER_SIZE + ETD_LINK_CRC_SIZE;
    answer->capacity = ETD_LINK_MIN_MTU - around;
    etd_write_u8(answer, ETD_LINK_STATUS_OK);
    etd_write_u8(answer, ETD_LINK_VERSION);
    etd_write_u16(answer, config->mtu);
    write_text_tag(answer, ETD_LINK_INFO_BOARD, config->target->board);
    write_text_tag(answer, ETD_LINK_INFO_CPU, config->target->cpu);
    write_text_tag(answer, ETD_LINK_INFO_BUILD_ID, config->build_id);
    write_text_tag(answer, ETD_LINK_INFO_RUNTIME, etd_runtime_name);
    write_text_tag(answer, ETD_LINK_INFO_KERNELS, etd_kernel_library);
    write_clock_tags(answer, config->target);
    write_u32_tag(answer, ETD_LINK_INFO_MODEL_CAPACITY, config->model_capacity);
    write_u32_tag(answer, ETD_LINK_INFO_ARENA_CAPACITY, config->arena_capacity);
    write_u32_tag(answer, ETD_LINK_INFO_INPUT_CAPACITY, config->input_capacity);
    const etd_more_tracers *more = config->port->more_tracers;
    write_u32_tag(answer, ETD_LINK_INFO_TRACE_CAPACITY,
                  config->trace_capacity + (more != NULL ? more->capacity : 0u));
    write_u32_tag(answer, ETD_LINK_INFO_DEBUG_CAPACITY, config->debug_capacity);
    write_probe_tag(answer, server->probe_ticks);
    write_u32_tag(answer, ETD_LINK_INFO_OPERATORS, etd_operator_count());
    write_postmortem_tag(answer, server->postmortem);
    write_bauds_tag(answer, config);
    write_last_run_tag(answer, server);
    write_placed_tag(answer, config->placed);
    return ETD_LINK_STATUS_OK;
}

static etd_status ping(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error) {
    (void)error;
    etd_write_status(answer, ETD_LINK_STATUS_OK);
    etd_write_u32(answer, server->epoch);
    etd_write_u32(answer, request->ticks);
    etd_write_u32(answer, 0); /* upper half of the counter; the host counts the wraps of a 32-bit clock */
    return ETD_LINK_STATUS_OK;
}

static etd_status status(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error) {
    (void)request;
    (void)error;
    const etd_port *port = server->config.port;
    etd_write_u8(answer, ETD_LINK_STATUS_OK);
    etd_write_u8(answer, server->state);
    etd_write_u16(answer, 0);
    etd_write_u32(answer, server->session);
    etd_write_u32(answer, server->run.id);
    etd_write_u32(answer, server->run.completed);
    etd_write_u32(answer, server->good_frames);
    etd_write_u32(answer, server->corrupt_frames);
    etd_write_u32(answer, port->overruns != NULL ? port->overruns(port->context) : 0);
    etd_server_write_error(answer, &server->run.error);
    return ETD_LINK_STATUS_OK;
}

static void reboot(etd_server *server) {
    etd_method_unload(&server->method);
    server->config.port->reboot(server->config.port->context);
}

static etd_status reset(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error) {
    switch (request->body[0]) {
    case ETD_LINK_RESET_SESSION:
        etd_server_drop_model(server);
        break;
    case ETD_LINK_RESET_REBOOT:
        request->then = reboot;
        break;
    case ETD_LINK_RESET_POSTMORTEM:
        /* A postmortem is gone once the next run has begun; the log of that run must stay. */
        if (server->postmortem != ETD_POSTMORTEM_CONDITION_NONE) {
            etd_server_clear_postmortem(server);
        }
        break;
    default:
        return etd_fail(error, ETD_LINK_STATUS_BAD_REQUEST, request->body[0], "unknown kind of reset", NULL);
    }
    etd_write_u8(answer, ETD_LINK_STATUS_OK);
    return ETD_LINK_STATUS_OK;
}

/* Requests and the sizes of their bodies. */
static const struct {
    uint8_t op;
    uint8_t body_size;
    bool longer;     /* the body may be longer */
    bool during_run; /* served during a run, too */
    bool in_batch;   /* served as a part of BATCH, too */
    etd_handler handler;
} requests[] = {
    {ETD_LINK_OP_HELLO, 8, false, true, false, hello},
    {ETD_LINK_OP_PING, 0, false, true, false, ping},
    {ETD_LINK_OP_STATUS, 0, false, true, true, status},
    {ETD_LINK_OP_RESET, 1, false, false, false, reset},
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

static void serve_frame(void *context, const uint8_t *frame) {
    etd_server *server = context;
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
    server->serve = serve_frame;
    etd_frame_decoder_init(&server->decoder, config->receive, ETD_SERVER_RECEIVE_SIZE(config->mtu));
    const etd_port *port = config->port;
    uint32_t reason = port->reset_reason != NULL ? port->reset_reason(port->context) : 0u;
    server->postmortem = etd_postmortem_open(config->kept, config->build_id, config->trace,
                                             config->trace_capacity, reason, etd_stack_read(port));
    server->probe_ticks = measure_probe(config);
    server->counters = port->counters != NULL ? port->counters(port->context) : NULL;
    etd_server_drop_model(server);
    etd_server_quiet(server, false);
}

void etd_server_announce(etd_server *server) {
    etd_writer note = etd_server_begin_body(server);
    etd_write_u8(&note, server->postmortem);
    etd_server_send(server, ETD_LINK_OP_NOTE_STARTED, 0, &note);
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
