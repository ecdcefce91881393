// SPDX-License-Identifier: Apache-2.0
/* HELLO, PING, STATUS, RESET: identity and state of the device. */
#include <string.h>

#include "etd_kernel.h"
#include "server_internal.h"

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

etd_status etd_server_hello(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error) {
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
    write_u32_tag(answer, ETD_LINK_INFO_TRACE_CAPACITY, config->trace_capacity);
    write_u32_tag(answer, ETD_LINK_INFO_DEBUG_CAPACITY, config->debug_capacity);
    write_probe_tag(answer, server->probe_ticks);
    write_u32_tag(answer, ETD_LINK_INFO_OPERATORS, etd_operator_count());
    write_postmortem_tag(answer, server->postmortem);
    write_bauds_tag(answer, config);
    write_last_run_tag(answer, server);
    write_placed_tag(answer, config->placed);
    return ETD_LINK_STATUS_OK;
}

etd_status etd_server_ping(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error) {
    (void)error;
    etd_write_status(answer, ETD_LINK_STATUS_OK);
    etd_write_u32(answer, server->epoch);
    etd_write_u32(answer, request->ticks);
    etd_write_u32(answer, 0); /* upper half of the counter; the host counts the wraps of a 32-bit clock */
    return ETD_LINK_STATUS_OK;
}

etd_status etd_server_status(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error) {
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

etd_status etd_server_write_busy(const etd_server *server, etd_writer *answer) {
    const etd_run *run = &server->run;
    etd_write_status(answer, ETD_LINK_STATUS_BUSY);
    etd_write_u32(answer, run->id);
    etd_write_u32(answer, run->completed);
    etd_write_u32(answer, run->count);
    etd_write_u32(answer, run->elapsed_ms);
    return ETD_LINK_STATUS_OK;
}

void etd_server_clear_postmortem(etd_server *server) {
    etd_postmortem_clear(server->config.kept, server->config.build_id);
    server->postmortem = ETD_POSTMORTEM_CONDITION_NONE;
    etd_server_stop_download(server);
}

void etd_server_announce(etd_server *server) {
    etd_writer note = etd_server_begin_body(server);
    etd_write_u8(&note, server->postmortem);
    etd_server_send(server, ETD_LINK_OP_NOTE_STARTED, 0, &note);
}

static void reboot(etd_server *server) {
    etd_method_unload(&server->method);
    server->config.port->reboot(server->config.port->context);
}

etd_status etd_server_reset(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error) {
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
