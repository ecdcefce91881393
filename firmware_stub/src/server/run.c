// SPDX-License-Identifier: Apache-2.0
/* RUN and CANCEL: loads and executes the method under the tracer, on a clock that starts at zero. The server
 * uses the line only between executions, so a deterministic target stays deterministic.
 *
 * STREAM: sends the log in chunks during the run, so a run may exceed the log buffer.
 *
 * A chunk stays in the buffer until the host has acknowledged it, while the other half of the buffer fills.
 * When there is no room left the device waits for the host, between two operators. The tracer does not know
 * of this: it appends records behind the chunk, whose size and header are kept here. */
#include <string.h>

#include "server_internal.h"

/* Counters. */

_Static_assert(ETD_LINK_MAX_COUNTERS == ETD_LOG_COUNTERS, "a log has the counters of a run");

#define COUNTER_SIZE 3u /* in the answer, without the name */

etd_status etd_server_counters(etd_server *server, etd_request *request, etd_writer *answer,
                               etd_error *error) {
    (void)error;
    const etd_counter_source *source = server->counters;
    uint32_t count = source != NULL ? source->counter_count : 0u;
    etd_write_u8(answer, ETD_LINK_STATUS_OK);
    etd_write_u8(answer, count);
    etd_write_u8(answer, count > 0 ? source->selectable_count : 0u);
    etd_write_u8(answer, 0);
    for (uint32_t i = request->body[0]; i < count; i++) {
        const etd_counter *counter = &source->counters[i];
        uint32_t length = (uint32_t)strlen(counter->name);
        if (COUNTER_SIZE + length > answer->capacity - answer->size) {
            break; /* the host asks for the rest */
        }
        etd_write_u8(answer, counter->bits);
        etd_write_u8(answer, counter->selectable);
        etd_write_u8(answer, length);
        etd_write_bytes(answer, counter->name, length);
    }
    return ETD_LINK_STATUS_OK;
}

static etd_status check_counters(const etd_server *server, const uint8_t *indexes, uint32_t count,
                                 etd_error *error) {
    const etd_counter_source *source = server->counters;
    if (count == 0 || (source != NULL && etd_can_count(source, indexes, count))) {
        return ETD_LINK_STATUS_OK;
    }
    return etd_fail(error, ETD_LINK_STATUS_BAD_REQUEST, count, "these counters cannot count at once", NULL);
}

static void start_counting(etd_server *server) {
    const etd_counter_source *source = server->counters;
    const etd_run *run = &server->run;
    if (run->counter_count > 0) {
        /* Without room for their names the log is full, which it says itself. */
        (void)source->start(&server->config.kept->tracer, source->counting, source, run->counters,
                            run->counter_count);
    }
}

/* Streaming. */

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

static void start_stream(etd_server *server) {
    server->stream = (etd_stream){.record_count_before = UINT32_MAX};
    if (server->run.stream) {
        server->stream.sending_event = etd_intern(tracer_of(server), SENDING_EVENT);
        server->stream.waiting_event = etd_intern(tracer_of(server), WAITING_EVENT);
    }
}

static void stream_log(etd_server *server) {
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

/* Executing. */

void etd_server_clear_postmortem(etd_server *server) {
    etd_postmortem_clear(server->config.kept, server->config.build_id);
    server->postmortem = ETD_POSTMORTEM_CONDITION_NONE;
    etd_server_stop_download(server);
}

#define RUN_OPTIONS 4u
#define BUNDLED_INPUT_SIZE 4u

static void send_note(etd_server *server, uint8_t type) {
    const etd_run *run = &server->run;
    etd_writer note = etd_server_begin_body(server);
    etd_write_u32(&note, run->id);
    etd_write_u32(&note, run->completed);
    if (type == ETD_LINK_OP_NOTE_DONE) {
        etd_server_write_error(&note, &run->error);
    }
    etd_server_send(server, type, 0, &note);
}

/* Copies the staged inputs into the model. Fails if the program has resized an input so that the bytes no
 * longer fit. */
static etd_status copy_inputs(etd_server *server, etd_error *error) {
    for (uint32_t i = 0; i < server->input_count; i++) {
        const etd_staged_input *input = &server->inputs[i];
        const etd_tensor *tensor = etd_method_input(&server->method, i);
        if (tensor == NULL || tensor->constant ||
            (tensor->bounds != NULL &&
             !etd_method_resize_input(&server->method, i, etd_server_input_sizes(server, i))) ||
            tensor->nbytes != input->size) {
            return etd_fail(error, ETD_LINK_STATUS_BAD_INPUT, input->size,
                            "the model changed the shape of an input", NULL);
        }
        memcpy(tensor->data, server->config.inputs + input->offset, input->size);
    }
    return ETD_LINK_STATUS_OK;
}

/* Adds up the time of the run. Keeps what is less than a millisecond for the next time. */
static void update_elapsed(etd_server *server) {
    const etd_target *target = server->config.target;
    etd_run *run = &server->run;
    uint32_t per_ms = target->clock_hz_numerator / target->clock_hz_denominator / 1000u;
    uint32_t passed = etd_server_ticks_since(server, run->seen_at);
    if (per_ms > 0) {
        run->elapsed_ms += passed / per_ms;
        run->seen_at += passed - passed % per_ms;
    }
}

/* Serves the requests that have arrived during an execution. A UART without a FIFO has lost most of a
 * request, so after bytes without a good frame the server listens until the request is repeated. */
static void listen(etd_server *server) {
    uint32_t good = server->good_frames;
    if (!etd_server_receive(server)) {
        return;
    }
    while (etd_server_receive(server)) {
    }
    /* A piece of a LOG_ACK is repeated when the device asks for it. */
    if (server->good_frames != good || server->stream.pending) {
        return;
    }
    (void)etd_server_watch_rate(server, true);
    etd_timer rest = etd_server_start_timer(server, ETD_LINK_LISTEN_MS);
    while (server->good_frames == good && !etd_server_timer_over(server, &rest)) {
        (void)etd_server_receive(server);
        (void)etd_server_watch_rate(server, false);
        etd_server_alive(server);
    }
}

/* The first execution is complete by then, so the postmortem has something to count. */
static void crash_if_asked(etd_server *server) {
    if (server->run.crash && server->run.completed > 0) {
        server->config.port->crash(server->config.port->context);
    }
}

static void between_instructions(void *context, uint32_t instruction) {
    etd_server *server = context;
    (void)instruction;
    crash_if_asked(server);
    stream_log(server);
    etd_server_alive(server);
}

/* Keeps the marker pin low between executions, for so long that a meter sees it. */
static void rest_marker(etd_server *server) {
    if (server->config.port->marker == NULL) {
        return;
    }
    etd_timer rest = etd_server_start_timer(server, 1);
    while (!etd_server_timer_over(server, &rest)) {
    }
}

/* Loads the method, so that its buffers have their initial contents. A log that goes on has the first loading
 * already: this one would log the same names, and the same allocators again. */
static etd_status load_method(etd_server *server, etd_error *error) {
    const etd_server_config *config = &server->config;
    etd_tracer *tracer = &config->kept->tracer;
    const uint32_t record_count = tracer->record_count;
    const uint32_t block_offset = tracer->block_offset;
    const uint32_t first_run = tracer->first_run;
    const uint32_t allocator_count = tracer->allocator_count;
    const uint32_t dropped_runs = tracer->dropped_runs;
    if (server->run.continues) {
        tracer->allocator_count = 0;
    }
    etd_method_unload(&server->method);
    etd_status status = etd_method_load(&server->method, &server->program, server->method.name, config->arena,
                                        config->arena_capacity, tracer, error);
    server->loaded = status == ETD_LINK_STATUS_OK;
    if (server->run.continues && tracer->dropped_runs == dropped_runs) {
        tracer->record_count = record_count;
        tracer->block_offset = block_offset;
        tracer->first_run = first_run;
        tracer->allocator_count = allocator_count;
    }
    return status;
}

static etd_status execute_all(etd_server *server, etd_error *error) {
    const etd_server_config *config = &server->config;
    etd_run *run = &server->run;
    etd_status status = run->keeps_state ? ETD_LINK_STATUS_OK : load_method(server, error);
    if (run->stream || run->crash || config->port->alive != NULL) {
        server->method.between = between_instructions;
        server->method.between_context = server;
    }
    server->method.executing = config->port->marker;
    server->method.executing_context = config->port->context;
    while (status == ETD_LINK_STATUS_OK && run->completed < run->count && !run->cancelled) {
        status = copy_inputs(server, error);
        if (status == ETD_LINK_STATUS_OK) {
            status = etd_method_execute(&server->method, error);
            crash_if_asked(server); /* of a runtime that calls nothing between instructions */
        }
        if (status == ETD_LINK_STATUS_OK) {
            stream_log(server);
            run->completed++;
            config->kept->run.completed = run->completed;
            send_note(server, ETD_LINK_OP_NOTE_PROGRESS);
            etd_server_alive(server);
            rest_marker(server);
            update_elapsed(server);
            listen(server);
        }
    }
    if (status == ETD_LINK_STATUS_OK && run->completed < run->count) {
        return etd_fail(error, ETD_LINK_STATUS_CANCELLED, run->count, "the run was cancelled", NULL);
    }
    return status;
}

_Static_assert((uint32_t)ETD_LINK_DEBUG_LEVEL_INTERMEDIATE_OUTPUTS ==
                       (uint32_t)ETD_DEBUG_INTERMEDIATE_OUTPUTS &&
                   (uint32_t)ETD_LINK_DEBUG_LEVEL_PROGRAM_OUTPUTS == (uint32_t)ETD_DEBUG_PROGRAM_OUTPUTS &&
                   (uint32_t)ETD_LINK_PROFILING_LEVEL_ALL_EVENTS == (uint32_t)ETD_PROFILE_ALL_EVENTS &&
                   (uint32_t)ETD_LINK_WHEN_FULL_DROP_OLDEST_RUNS == (uint32_t)ETD_WHEN_FULL_DROP_OLDEST_RUNS,
               "link and tracer must number these options alike");

static void init_tracer(etd_server *server) {
    const etd_server_config *config = &server->config;
    etd_tracer *tracer = &config->kept->tracer;
    if (server->run.continues) {
        etd_log_recycle(tracer); /* the method that keeps its state has names in this log */
        etd_set_bundled_input_index(tracer, server->run.bundled_input);
        start_stream(server);
        return;
    }
    etd_tracer_init(tracer, config->trace, server->run.trace_capacity, config->port->ticks,
                    config->port->context);
    etd_set_debug_buffer(tracer, config->debug, config->debug_capacity);
    etd_set_debug_level(tracer, (etd_debug_level)server->run.debug_level);
    etd_set_profiling_level(tracer, (etd_profiling_level)server->run.profiling_level);
    start_counting(server);
    /* A streamed log never gives up runs: records of a chunk that may be sent again must not move. */
    etd_set_when_full(tracer, server->run.stream ? ETD_WHEN_FULL_STOP : (etd_when_full)server->run.when_full);
    etd_set_bundled_input_index(tracer, server->run.bundled_input);
    start_stream(server);
}

void etd_server_start_run(etd_server *server) {
    const etd_server_config *config = &server->config;
    etd_server_stop_download(server);
    if (!server->run.continues) {
        etd_server_clear_postmortem(server); /* and the tracer with it */
    }
    etd_server_quiet(server, true);
    if (server->run.continues) {
        server->run.seen_at = etd_server_ticks(server);
    } else {
        etd_stack_paint(config->port);
        config->port->restart_clock(config->port->context);
        server->run.seen_at = 0;
        server->epoch++;
    }
    init_tracer(server);
    const etd_more_tracers *more = config->port->more_tracers;
    if (more != NULL) {
        more->begin(more->context, &config->kept->tracer);
    }
    etd_postmortem_begin_run(config->kept, server->run.id, server->run.count);
    etd_status status = execute_all(server, &server->run.error);
    if (more != NULL) {
        more->end(more->context, &config->kept->tracer);
    }
    if (status == ETD_LINK_STATUS_OK && server->stream.undelivered) {
        (void)etd_fail(&server->run.error, ETD_LINK_STATUS_LOG_UNDELIVERED, ETD_LINK_STREAM_WAIT_MS,
                       "the host did not acknowledge the streamed log", NULL);
    }
    etd_postmortem_end_run(config->kept);
    etd_stack_use stack = etd_stack_read(config->port);
    etd_set_stack_used(&config->kept->tracer, stack.used, stack.size);
    server->state = ETD_LINK_STATE_DONE;
    etd_server_quiet(server, false);
    send_note(server, ETD_LINK_OP_NOTE_DONE);
}

/* Checks the options of a run, one byte each, which follow the trace limit in the body. */
static etd_status check_options(const etd_port *port, const uint8_t *options, etd_error *error) {
    uint32_t flags = ETD_LINK_RUN_FLAG_STREAM | (port->crash != NULL ? ETD_LINK_RUN_FLAG_CRASH : 0u);
    if (port->more_tracers == NULL && (options[3] & ETD_LINK_RUN_FLAG_CONTINUE) != 0) {
        flags |= ETD_LINK_RUN_FLAG_CONTINUE | ETD_LINK_RUN_FLAG_KEEP_STATE;
    }
    const struct {
        const char *name;
        uint8_t largest;
    } known[RUN_OPTIONS] = {
        {"debug level", ETD_LINK_DEBUG_LEVEL_INTERMEDIATE_OUTPUTS},
        {"profiling level", ETD_LINK_PROFILING_LEVEL_ALL_EVENTS},
        {"policy for a full log", ETD_LINK_WHEN_FULL_DROP_OLDEST_RUNS},
        {"flags", (uint8_t)(options[3] & flags)},
    };
    for (uint32_t i = 0; i < RUN_OPTIONS; i++) {
        if (options[i] > known[i].largest) {
            return etd_fail(error, ETD_LINK_STATUS_BAD_REQUEST, options[i], "unsupported ", known[i].name);
        }
    }
    return ETD_LINK_STATUS_OK;
}

static etd_status check_run(const etd_server *server, uint32_t count, bool continues, etd_error *error) {
    if (count == 0) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_REQUEST, 0, "the number of executions is 0", NULL);
    }
    if (server->state == ETD_LINK_STATE_IDLE) {
        return etd_fail(error, ETD_LINK_STATUS_WRONG_STATE, server->state, "no model loaded", NULL);
    }
    if (continues &&
        (server->state != ETD_LINK_STATE_DONE || server->run.error.status != ETD_LINK_STATUS_OK)) {
        return etd_fail(error, ETD_LINK_STATUS_WRONG_STATE, server->state, "no completed run to continue",
                        NULL);
    }
    for (uint32_t i = 0; i < server->input_count; i++) {
        if (!server->inputs[i].ready) {
            return etd_fail(error, ETD_LINK_STATUS_BAD_INPUT, server->inputs[i].size, "an input is missing",
                            NULL);
        }
    }
    return ETD_LINK_STATUS_OK;
}

etd_status etd_server_run(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error) {
    etd_run *run = &server->run;
    uint32_t id = etd_get_u32(request->body);
    uint32_t count = etd_get_u32(request->body + 4);
    uint32_t limit = etd_get_u32(request->body + 8);
    if (run->repeatable && id == run->id) {
        *error = run->error;
        etd_write_u8(answer, run->error.status);
        return run->error.status;
    }
    const bool bundled = request->size >= RUN_SIZE + BUNDLED_INPUT_SIZE;
    const uint8_t *counters = request->body + RUN_SIZE + BUNDLED_INPUT_SIZE;
    const uint32_t counter_count = bundled ? request->size - RUN_SIZE - BUNDLED_INPUT_SIZE : 0u;
    if (request->size != RUN_SIZE && !bundled) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_REQUEST, RUN_SIZE, "wrong body size", NULL);
    }
    const uint8_t *options = request->body + 12;
    const bool continues = (options[3] & ETD_LINK_RUN_FLAG_CONTINUE) != 0;
    etd_status status = check_options(server->config.port, options, error);
    if (status == ETD_LINK_STATUS_OK) {
        status = check_counters(server, counters, counter_count, error);
    }
    if (status == ETD_LINK_STATUS_OK) {
        status = check_run(server, count, continues, error);
    }
    if (status != ETD_LINK_STATUS_OK) {
        return status;
    }
    uint32_t capacity = server->config.trace_capacity;
    capacity = limit > 0 && limit < capacity ? limit : capacity;
    bool stream = (options[3] & ETD_LINK_RUN_FLAG_STREAM) != 0 && capacity >= ETD_LOG_HEADER_SIZE;
    capacity = stream ? capacity - ETD_LOG_HEADER_SIZE : capacity;
    if (continues) { /* the tracer does not begin anew, so its memory stays as it is */
        capacity = run->trace_capacity;
        stream = run->stream;
    }
    *run = (etd_run){
        .id = id,
        .count = count,
        .trace_capacity = capacity,
        .stream = stream,
        .crash = (options[3] & ETD_LINK_RUN_FLAG_CRASH) != 0,
        .continues = continues,
        .keeps_state = (options[3] & ETD_LINK_RUN_FLAG_KEEP_STATE) != 0,
        .debug_level = options[0],
        .profiling_level = options[1],
        .when_full = options[2],
        .bundled_input = bundled ? (int32_t)etd_get_u32(request->body + RUN_SIZE) : -1,
        .counter_count = (uint8_t)counter_count,
        .repeatable = true,
    };
    memcpy(run->counters, counters, counter_count);
    server->state = ETD_LINK_STATE_RUNNING;
    etd_write_u8(answer, ETD_LINK_STATUS_OK);
    return ETD_LINK_STATUS_OK;
}

etd_status etd_server_cancel(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error) {
    etd_run *run = &server->run;
    uint32_t id = etd_get_u32(request->body);
    if (id != run->id) {
        return etd_fail(error, ETD_LINK_STATUS_WRONG_STATE, run->id, "another run is the last one", NULL);
    }
    run->cancelled = true;
    etd_write_u8(answer, ETD_LINK_STATUS_OK);
    return ETD_LINK_STATUS_OK;
}
