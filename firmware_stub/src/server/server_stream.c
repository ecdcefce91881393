// SPDX-License-Identifier: Apache-2.0
/* STREAM: sends the log in chunks during the run, so a run may exceed the log buffer.
 *
 * A chunk stays in the buffer until the host has acknowledged it, while the other half of the buffer fills.
 * When there is no room left the device waits for the host, between two operators. The tracer does not know
 * of this: it appends records behind the chunk, whose size and header are kept here. */
#include "server_internal.h"

#define SENDING_EVENT "Link::stream"
#define WAITING_EVENT "Link::wait"

static etd_tracer *tracer_of(etd_server *server) {
    return &server->config.kept->tracer;
}

/* Returns where the chunk's header is kept as it was sent: behind the memory of the log. */
static uint8_t *header_of(const etd_server *server) {
    return server->config.trace + server->run.trace_capacity;
}

static uint32_t chunk_size(const etd_server *server) {
    const etd_stream *stream = &server->stream;
    return ETD_LOG_HEADER_SIZE + stream->record_count * ETD_LOG_RECORD_SIZE + stream->names_size +
           stream->debug_size;
}

/* A part of a chunk, which is not contiguous in memory. */
typedef struct {
    const uint8_t *bytes;
    uint32_t size;
} etd_chunk_part;

/* Reads bytes of the chunk: the log image as it was when the chunk ended, then its debug buffer. */
static void read_chunk(etd_server *server, uint32_t offset, uint8_t *out, uint32_t count) {
    const etd_stream *stream = &server->stream;
    const etd_tracer *tracer = tracer_of(server);
    const etd_chunk_part parts[] = {
        {header_of(server), ETD_LOG_HEADER_SIZE},
        {tracer->buffer, stream->record_count * ETD_LOG_RECORD_SIZE},
        /* Names grow downwards, so later ones lie in front. */
        {tracer->buffer + (tracer->capacity - stream->names_size), stream->names_size},
        {server->config.debug, stream->debug_size},
    };
    for (uint32_t i = 0; i < sizeof parts / sizeof parts[0] && count > 0; i++) {
        if (offset >= parts[i].size) {
            offset -= parts[i].size;
            continue;
        }
        uint32_t copied = parts[i].size - offset < count ? parts[i].size - offset : count;
        memcpy(out, parts[i].bytes + offset, copied);
        out += copied;
        count -= copied;
        offset = 0;
    }
}

static etd_writer begin_note(etd_server *server) {
    etd_writer note = etd_server_begin_body(server);
    etd_write_u32(&note, server->run.id);
    etd_write_u32(&note, tracer_of(server)->chunk);
    etd_write_u32(&note, chunk_size(server));
    return note;
}

static void send_range(etd_server *server, uint32_t start, uint32_t end) {
    for (uint32_t offset = start, count; offset < end; offset += count) {
        etd_writer note = begin_note(server);
        etd_write_u32(&note, offset);
        uint32_t room = note.capacity - note.size;
        count = end - offset < room ? end - offset : room;
        read_chunk(server, offset, etd_write(&note, count), count);
        etd_server_send(server, ETD_LINK_OP_NOTE_LOG, 0, &note);
    }
}

/* Starts an event that belongs to no operator. Its name was interned before the log could fill. */
static etd_event start_event(etd_server *server, etd_name name) {
    etd_tracer *tracer = tracer_of(server);
    etd_set_chain_debug_handle(tracer, ETD_UNSET_CHAIN, ETD_UNSET_HANDLE);
    return etd_start_profiling_interned(tracer, name, ETD_UNSET_CHAIN, ETD_UNSET_HANDLE);
}

/* Makes what is in the log now a chunk, and sends it. */
static void send_chunk(etd_server *server) {
    etd_tracer *tracer = tracer_of(server);
    etd_stream *stream = &server->stream;
    (void)etd_log_read(tracer, 0, header_of(server), ETD_LOG_HEADER_SIZE);
    stream->record_count = tracer->record_count;
    stream->names_size = tracer->names_size;
    stream->debug_size = etd_debug_size(tracer);
    stream->block_offset = tracer->block_offset;
    stream->received = 0;
    stream->again = (etd_range){0, 0};
    stream->pending = true;
    stream->acknowledged = false;
    etd_event event = start_event(server, stream->sending_event);
    send_range(server, 0, chunk_size(server));
    etd_end_profiling(tracer, event);
}

/* Removes the acknowledged chunk from the buffer. What was logged since moves to the front, as the start of
 * the next chunk. */
static void release_chunk(etd_server *server) {
    etd_tracer *tracer = tracer_of(server);
    etd_stream *stream = &server->stream;
    uint32_t chunk = stream->record_count;
    uint32_t later = tracer->record_count - chunk;
    uint32_t debug_used = tracer->debug_used - stream->debug_size;
    uint32_t block = tracer->block_offset;
    /* The tracer empties its whole log, so it gets to see no more than the chunk. */
    tracer->record_count = chunk;
    tracer->block_offset = stream->block_offset;
    etd_log_recycle(tracer);
    uint32_t kept = tracer->record_count;
    memmove(tracer->buffer + kept * ETD_LOG_RECORD_SIZE, tracer->buffer + chunk * ETD_LOG_RECORD_SIZE,
            later * ETD_LOG_RECORD_SIZE);
    tracer->record_count = kept + later;
    /* Not 0 only if the chunk had no values: those of later records stay where the records say. */
    tracer->debug_used = debug_used;
    if (block !=
        stream->block_offset) { /* the current block began behind the chunk, or its record was lost */
        bool lost = block >= tracer->capacity;
        tracer->block_offset = lost ? block : block - (chunk - kept) * ETD_LOG_RECORD_SIZE;
    }
    stream->pending = false;
}

static void take_log_ack(etd_server *server, const uint8_t *body) {
    etd_stream *stream = &server->stream;
    if (!stream->pending || etd_get_u32(body) != server->run.id ||
        etd_get_u32(body + 4) != tracer_of(server)->chunk) {
        return; /* a late or repeated one */
    }
    uint32_t start = etd_get_u32(body + 8);
    uint32_t count = etd_get_u32(body + 12);
    uint32_t end = chunk_size(server);
    if (start > end || count > end - start || (count == 0 && start < end)) {
        return;
    }
    stream->answered = true;
    stream->progressed = stream->progressed || start > stream->received;
    stream->received = start > stream->received ? start : stream->received;
    stream->acknowledged = stream->acknowledged || count == 0;
    stream->again = (etd_range){start, start + count};
}

etd_status etd_server_log_ack(etd_server *server, etd_request *request, etd_writer *answer,
                              etd_error *error) {
    (void)answer;
    (void)error;
    request->silent = true;
    if (server->state == ETD_LINK_STATE_RUNNING) {
        take_log_ack(server, request->body);
    }
    return ETD_LINK_STATUS_OK;
}

/* Does what the host has asked for: removes the chunk, or sends a part of it again. */
static void follow_host(etd_server *server) {
    etd_stream *stream = &server->stream;
    if (stream->acknowledged) {
        release_chunk(server);
        return;
    }
    etd_range again = stream->again;
    stream->again = (etd_range){0, 0};
    send_range(server, again.start, again.end);
}

/* Waits until the chunk is acknowledged. Gives up when the host gets no further for STREAM_WAIT_MS. */
static void wait_for_host(etd_server *server, bool ask) {
    etd_stream *stream = &server->stream;
    etd_event event = start_event(server, stream->waiting_event);
    etd_timer give_up = etd_server_start_timer(server, ETD_LINK_STREAM_WAIT_MS);
    etd_timer next_ask = etd_server_start_timer(server, ask ? 0u : ETD_LINK_STREAM_ASK_MS);
    while (stream->pending && !stream->undelivered) {
        (void)etd_server_receive(server);
        if (stream->progressed) {
            give_up = etd_server_start_timer(server, ETD_LINK_STREAM_WAIT_MS);
        }
        if (stream->answered) {
            follow_host(server);
            next_ask = etd_server_start_timer(server, ETD_LINK_STREAM_ASK_MS);
        } else if (etd_server_timer_over(server, &next_ask)) {
            etd_writer note = begin_note(server);
            etd_server_send(server, ETD_LINK_OP_NOTE_LOG_WAIT, 0, &note);
            next_ask = etd_server_start_timer(server, ETD_LINK_STREAM_ASK_MS);
        }
        stream->answered = stream->progressed = false;
        stream->undelivered = stream->pending && etd_server_timer_over(server, &give_up);
        etd_server_alive(server);
    }
    etd_end_profiling(tracer_of(server), event);
}

/* Looks for what the host has sent, without waiting. */
static void look_for_host(etd_server *server) {
    etd_stream *stream = &server->stream;
    (void)etd_server_receive(server);
    if (stream->answered) {
        stream->answered = stream->progressed = false;
        etd_event event = start_event(server, stream->sending_event);
        follow_host(server);
        etd_end_profiling(tracer_of(server), event);
    }
}

/* Returns true if the log may fill before the next opportunity to send it. How much an operator logs is known
 * after the first execution. A chunk with values has to go first, because later values would move. */
static bool must_wait(etd_server *server) {
    const etd_tracer *tracer = tracer_of(server);
    const etd_stream *stream = &server->stream;
    uint32_t limit = (tracer->capacity - tracer->names_size) / ETD_LOG_RECORD_SIZE;
    uint32_t room = limit - tracer->record_count;
    uint32_t needed = stream->largest_step > limit / 4u ? stream->largest_step : limit / 4u;
    return tracer->full || stream->debug_size > 0 || server->run.completed == 0 || room < needed;
}

void etd_server_start_stream(etd_server *server) {
    server->stream = (etd_stream){.record_count_before = UINT32_MAX};
    if (server->run.stream) {
        server->stream.sending_event = etd_intern(tracer_of(server), SENDING_EVENT);
        server->stream.waiting_event = etd_intern(tracer_of(server), WAITING_EVENT);
    }
}

void etd_server_stream_log(etd_server *server) {
    etd_tracer *tracer = tracer_of(server);
    etd_stream *stream = &server->stream;
    if (!server->run.stream || stream->undelivered) {
        return;
    }
    uint32_t before = stream->record_count_before; /* larger than any count at the first call */
    if (before < tracer->record_count && tracer->record_count - before > stream->largest_step) {
        stream->largest_step = tracer->record_count - before;
    }
    bool full = tracer->full;
    if (stream->pending) {
        look_for_host(server);
    }
    if (stream->pending && must_wait(server)) {
        wait_for_host(server, true);
    }
    if (!stream->pending && (full || etd_log_half_full(tracer))) {
        send_chunk(server);
        if (full || must_wait(server)) {
            wait_for_host(server, false);
        }
    }
    stream->record_count_before = tracer->record_count;
}
