// SPDX-License-Identifier: Apache-2.0
/* The line: sends frames, takes bytes, keeps time and changes the rate. The rest of the server lies above it.
 *
 * BAUD changes the rate of the line, and changes it back if no good frame arrives at the new rate. Both ends
 * fall back to the rate after reset, so lost frames cannot leave them at different rates. */
#include "server_internal.h"

#include <string.h>

#define POLL_BYTES 128u

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

etd_status etd_server_write_busy(const etd_server *server, etd_writer *answer) {
    const etd_run *run = &server->run;
    etd_write_status(answer, ETD_LINK_STATUS_BUSY);
    etd_write_u32(answer, run->id);
    etd_write_u32(answer, run->completed);
    etd_write_u32(answer, run->count);
    etd_write_u32(answer, run->elapsed_ms);
    return ETD_LINK_STATUS_OK;
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
        server->serve(server, server->decoder.payload);
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

static bool is_offered(const etd_server_config *config, uint32_t baud) {
    for (uint32_t i = 0; config->port->set_baud != NULL && i < config->target->baud_count; i++) {
        if (config->target->bauds[i] == baud) {
            return true;
        }
    }
    return false;
}

static void start_trial(etd_server *server) {
    server->rate.doubted = true;
    server->rate.trial = etd_server_start_timer(server, ETD_LINK_BAUD_TRIAL_MS);
}

static void change_rate(etd_server *server) {
    const etd_port *port = server->config.port;
    port->set_baud(port->context, server->rate.wanted);
    server->rate.raised = server->rate.wanted != server->config.target->bauds[0];
    if (server->rate.raised) {
        start_trial(server);
    }
}

etd_status etd_server_baud(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error) {
    uint32_t baud = etd_get_u32(request->body);
    if (!is_offered(&server->config, baud)) {
        return etd_fail(error, ETD_LINK_STATUS_UNSUPPORTED_FEATURE, baud, "unsupported line rate", NULL);
    }
    server->rate.wanted = baud;
    request->then = change_rate;
    etd_write_u8(answer, ETD_LINK_STATUS_OK);
    return ETD_LINK_STATUS_OK;
}

static void restore_rate(etd_server *server) {
    const etd_port *port = server->config.port;
    port->set_baud(port->context, server->config.target->bauds[0]);
    server->rate.raised = false;
    server->rate.doubted = false;
    etd_frame_decoder_init(&server->decoder, server->decoder.payload, server->decoder.capacity);
}

bool etd_server_watch_rate(etd_server *server, bool noise) {
    etd_rate *rate = &server->rate;
    if (!rate->raised) {
        return false;
    }
    if (!rate->doubted) {
        if (noise) {
            start_trial(server);
        }
        return noise;
    }
    if (!etd_server_timer_over(server, &rate->trial)) {
        return true;
    }
    restore_rate(server);
    return false;
}
