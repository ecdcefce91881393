/* STREAM: the log goes out in chunks while the run goes on, so that a run may be longer than its buffer. */
#include "server_internal.h"

/* The event that covers the sending: what lasts longer by it can be corrected. */
#define EVENT_NAME "Link::stream"

/* Bytes of the image with the debug buffer behind it. */
static void read_chunk(const et_server *server, uint32_t offset, uint8_t *out, uint32_t count) {
    const et_tracer *tracer = &server->config.kept->tracer;
    uint32_t copied = et_log_read(tracer, offset, out, count);
    if (copied < count) {
        memcpy(out + copied, server->config.debug + (offset + copied - et_log_size(tracer)), count - copied);
    }
}

static void send_chunk(et_server *server) {
    const et_tracer *tracer = &server->config.kept->tracer;
    uint32_t size = et_log_size(tracer) + et_debug_size(tracer);
    for (uint32_t offset = 0, count; offset < size; offset += count) {
        et_writer note = et_server_begin_body(server);
        et_write_u32(&note, server->run.id);
        et_write_u32(&note, tracer->chunk);
        et_write_u32(&note, size);
        et_write_u32(&note, offset);
        uint32_t room = note.capacity - note.size;
        count = size - offset < room ? size - offset : room;
        read_chunk(server, offset, et_write(&note, count), count);
        et_server_send(server, ET_LINK_OP_NOTE_LOG, 0, &note);
    }
}

void et_server_stream_log(et_server *server) {
    et_tracer *tracer = &server->config.kept->tracer;
    if (!server->run.stream || !et_log_half_full(tracer)) {
        return;
    }
    et_set_chain_debug_handle(tracer, ET_UNSET_CHAIN, ET_UNSET_HANDLE);
    et_event event = et_start_profiling(tracer, EVENT_NAME, ET_UNSET_CHAIN, ET_UNSET_HANDLE);
    send_chunk(server);
    et_log_recycle(tracer);
    et_end_profiling(tracer, event);
}
