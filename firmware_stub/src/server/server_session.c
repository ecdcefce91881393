/* HELLO, PING, STATUS, RESET: who is there and how it fares. */
#include <string.h>

#include "et_kernel.h"
#include "server_internal.h"

static void write_text_tag(et_writer *answer, uint32_t tag, const char *text) {
    size_t length = strlen(text);
    uint32_t cut = length > UINT8_MAX ? UINT8_MAX : (uint32_t)length;
    et_write_u8(answer, tag);
    et_write_u8(answer, cut);
    et_write_bytes(answer, text, cut);
}

static void write_u32_tag(et_writer *answer, uint32_t tag, uint32_t value) {
    et_write_u8(answer, tag);
    et_write_u8(answer, 4);
    et_write_u32(answer, value);
}

static void write_clock_tag(et_writer *answer, const et_clock *clock) {
    uint32_t length = (uint32_t)strlen(clock->name);
    et_write_u8(answer, ET_LINK_INFO_CLOCK);
    et_write_u8(answer, 12u + length);
    et_write_u8(answer, clock->bits);
    et_write_u8(answer, clock->down);
    et_write_u16(answer, 0);
    et_write_u32(answer, clock->hz_numerator);
    et_write_u32(answer, clock->hz_denominator);
    et_write_bytes(answer, clock->name, length);
}

static void write_clock_tags(et_writer *answer, const et_target *target) {
    et_clock first = {target->clock_name, target->clock_hz_numerator, target->clock_hz_denominator,
                      target->clock_bits, false};
    write_clock_tag(answer, &first);
    for (uint32_t i = 0; i < target->more_clock_count; i++) {
        write_clock_tag(answer, &target->more_clocks[i]);
    }
}

static void write_probe_tag(et_writer *answer, uint32_t ticks) {
    et_write_u8(answer, ET_LINK_INFO_PROBE_COST);
    et_write_u8(answer, 8);
    et_write_u32(answer, ticks);
    et_write_u32(answer, ET_SERVER_PROBE_PAIRS);
}

static void write_bauds_tag(et_writer *answer, const et_server_config *config) {
    uint32_t count = config->port->set_baud != NULL ? config->target->baud_count : 0;
    if (count > 0) {
        et_write_u8(answer, ET_LINK_INFO_BAUDS);
        et_write_u8(answer, 4u * count);
    }
    for (uint32_t i = 0; i < count; i++) {
        et_write_u32(answer, config->target->bauds[i]);
    }
}

static void write_postmortem_tag(et_writer *answer, uint8_t condition) {
    if (condition != ET_POSTMORTEM_CONDITION_NONE) {
        et_write_u8(answer, ET_LINK_INFO_POSTMORTEM);
        et_write_u8(answer, 1);
        et_write_u8(answer, condition);
    }
}

et_status et_server_hello(et_server *server, et_request *request, et_writer *answer, et_error *error) {
    if (request->body[0] > ET_LINK_VERSION || request->body[1] < ET_LINK_VERSION) {
        return et_fail(error, ET_LINK_STATUS_BAD_VERSION, ET_LINK_VERSION, "no common link version", NULL);
    }
    const et_server_config *config = &server->config;
    uint32_t session = et_get_u32(request->body + 4);
    /* A host that begins anew may count its runs from the same number again. */
    if (session != server->session) {
        server->run.repeatable = false;
    }
    server->session = session;
    et_server_stop_download(server);

    et_write_u8(answer, ET_LINK_STATUS_OK);
    et_write_u8(answer, ET_LINK_VERSION);
    et_write_u16(answer, config->mtu);
    write_text_tag(answer, ET_LINK_INFO_BOARD, config->target->board);
    write_text_tag(answer, ET_LINK_INFO_CPU, config->target->cpu);
    write_text_tag(answer, ET_LINK_INFO_BUILD_ID, config->build_id);
    write_clock_tags(answer, config->target);
    write_u32_tag(answer, ET_LINK_INFO_MODEL_CAPACITY, config->model_capacity);
    write_u32_tag(answer, ET_LINK_INFO_ARENA_CAPACITY, config->arena_capacity);
    write_u32_tag(answer, ET_LINK_INFO_INPUT_CAPACITY, config->input_capacity);
    write_u32_tag(answer, ET_LINK_INFO_TRACE_CAPACITY, config->trace_capacity);
    write_u32_tag(answer, ET_LINK_INFO_DEBUG_CAPACITY, config->debug_capacity);
    write_probe_tag(answer, server->probe_ticks);
    write_u32_tag(answer, ET_LINK_INFO_OPERATORS, et_kernel_count);
    write_postmortem_tag(answer, server->postmortem);
    write_bauds_tag(answer, config);
    return ET_LINK_STATUS_OK;
}

et_status et_server_ping(et_server *server, et_request *request, et_writer *answer, et_error *error) {
    (void)error;
    et_write_status(answer, ET_LINK_STATUS_OK);
    et_write_u32(answer, server->epoch);
    et_write_u32(answer, request->ticks);
    et_write_u32(answer, 0); /* upper half: wraps are the host's to count, a 32-bit clock cannot */
    return ET_LINK_STATUS_OK;
}

et_status et_server_status(et_server *server, et_request *request, et_writer *answer, et_error *error) {
    (void)request;
    (void)error;
    et_write_u8(answer, ET_LINK_STATUS_OK);
    et_write_u8(answer, server->state);
    et_write_u16(answer, 0);
    et_write_u32(answer, server->session);
    et_write_u32(answer, server->run.id);
    et_write_u32(answer, server->run.completed);
    et_write_u32(answer, server->good_frames);
    et_write_u32(answer, server->corrupt_frames);
    et_write_u32(answer, server->config.port->overruns != NULL ? server->config.port->overruns() : 0);
    et_server_write_error(answer, &server->run.error);
    return ET_LINK_STATUS_OK;
}

void et_server_clear_postmortem(et_server *server) {
    et_postmortem_clear(server->config.kept, server->config.build_id);
    server->postmortem = ET_POSTMORTEM_CONDITION_NONE;
    et_server_stop_download(server);
}

void et_server_announce(et_server *server) {
    et_writer note = et_server_begin_body(server);
    et_write_u8(&note, server->postmortem);
    et_server_send(server, ET_LINK_OP_NOTE_STARTED, 0, &note);
}

static void reboot(et_server *server) {
    et_method_unload(&server->method);
    server->config.port->reboot();
}

et_status et_server_reset(et_server *server, et_request *request, et_writer *answer, et_error *error) {
    switch (request->body[0]) {
    case ET_LINK_RESET_SESSION:
        et_server_drop_model(server);
        break;
    case ET_LINK_RESET_REBOOT:
        request->then = reboot;
        break;
    case ET_LINK_RESET_POSTMORTEM:
        /* The log of a run that has ended since stays; there is nothing else to forget then. */
        if (server->postmortem != ET_POSTMORTEM_CONDITION_NONE) {
            et_server_clear_postmortem(server);
        }
        break;
    default:
        return et_fail(error, ET_LINK_STATUS_BAD_REQUEST, request->body[0], "no such kind of reset", NULL);
    }
    et_write_u8(answer, ET_LINK_STATUS_OK);
    return ET_LINK_STATUS_OK;
}
