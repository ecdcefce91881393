// SPDX-License-Identifier: Apache-2.0
/* STREAM: sends the log in chunks during the run, so a run may exceed the log buffer. */
#include "server_internal.h"

/* The event that covers the sending, so that durations around it can be corrected. */
#define EVENT_NAME "Link::stream"

/* Reads bytes of the log image followed by the debug buffer. */
static void read_chunk(const etd_server *server, uint32_t offset, uint8_t *out, uint32_t count) {
    const etd_tracer *tracer = &server->config.kept->tracer;
    uint32_t copied = etd_log_read(tracer, offset, out, count);
    if (copied < count) {
        memcpy(out + copied, server->config.debug + (offset + copied - etd_log_size(tracer)), count - copied);
    }
}

static void send_chunk(etd_server *server) {
    const etd_tracer *tracer = &server->config.kept->tracer;
    uint32_t size = etd_log_size(tracer) + etd_debug_size(tracer);
    for (uint32_t offset = 0, count; offset < size; offset += count) {
        etd_writer note = etd_server_begin_body(server);
        etd_write_u32(&note, server->run.id);
        etd_write_u32(&note, tracer->chunk);
        etd_write_u32(&note, size);
        etd_write_u32(&note, offset);
        uint32_t room = note.capacity - note.size;
        count = size - offset < room ? size - offset : room;
        read_chunk(server, offset, etd_write(&note, count), count);
        etd_server_send(server, ETD_LINK_OP_NOTE_LOG, 0, &note);
    }
}

void etd_server_stream_log(etd_server *server) {
    etd_tracer *tracer = &server->config.kept->tracer;
    if (!server->run.stream || !etd_log_half_full(tracer)) {
        return;
    }
    etd_set_chain_debug_handle(tracer, ETD_UNSET_CHAIN, ETD_UNSET_HANDLE);
    etd_event event = etd_start_profiling(tracer, EVENT_NAME, ETD_UNSET_CHAIN, ETD_UNSET_HANDLE);
    send_chunk(server);
    etd_log_recycle(tracer);
    etd_end_profiling(tracer, event);
}
