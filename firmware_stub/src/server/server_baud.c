// SPDX-License-Identifier: Apache-2.0
/* BAUD: changes the rate of the line, and changes it back if no good frame arrives at the new rate. Both ends
 * fall back to the rate after reset, so lost frames cannot leave them at different rates. */
#include "server_internal.h"

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
