// SPDX-License-Identifier: Apache-2.0
/* RUN and CANCEL: loads and executes the method under the tracer, on a clock that starts at zero. The server
 * uses the line only between executions, so a deterministic target stays deterministic. */
#include <string.h>

#include "server_internal.h"

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
    etd_server_stream_log(server);
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

static etd_status execute_all(etd_server *server, etd_error *error) {
    const etd_server_config *config = &server->config;
    etd_run *run = &server->run;
    etd_method_unload(&server->method);
    etd_status status = etd_method_load(&server->method, &server->program, server->method.name, config->arena,
                                        config->arena_capacity, &config->kept->tracer, error);
    server->loaded = status == ETD_LINK_STATUS_OK;
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
            etd_server_stream_log(server);
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
    etd_tracer_init(tracer, config->trace, server->run.trace_capacity, config->port->ticks,
                    config->port->context);
    etd_set_debug_buffer(tracer, config->debug, config->debug_capacity);
    etd_set_debug_level(tracer, (etd_debug_level)server->run.debug_level);
    etd_set_profiling_level(tracer, (etd_profiling_level)server->run.profiling_level);
    etd_server_start_counting(server);
    /* A streamed log never gives up runs: records of a chunk that may be sent again must not move. */
    etd_set_when_full(tracer, server->run.stream ? ETD_WHEN_FULL_STOP : (etd_when_full)server->run.when_full);
    etd_set_bundled_input_index(tracer, server->run.bundled_input);
    etd_server_start_stream(server);
}

void etd_server_start_run(etd_server *server) {
    const etd_server_config *config = &server->config;
    etd_server_stop_download(server);
    etd_server_clear_postmortem(server);
    etd_stack_paint(config->port);
    etd_server_quiet(server, true);
    config->port->restart_clock(config->port->context);
    server->run.seen_at = 0;
    server->epoch++;
    init_tracer(server);
    etd_postmortem_begin_run(config->kept, server->run.id, server->run.count);
    etd_status status = execute_all(server, &server->run.error);
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
    const uint8_t crash = port->crash != NULL ? ETD_LINK_RUN_FLAG_CRASH : 0u;
    const struct {
        const char *name;
        uint8_t largest;
    } known[RUN_OPTIONS] = {
        {"debug level", ETD_LINK_DEBUG_LEVEL_INTERMEDIATE_OUTPUTS},
        {"profiling level", ETD_LINK_PROFILING_LEVEL_ALL_EVENTS},
        {"policy for a full log", ETD_LINK_WHEN_FULL_DROP_OLDEST_RUNS},
        {"flags", (uint8_t)(ETD_LINK_RUN_FLAG_STREAM | crash)},
    };
    for (uint32_t i = 0; i < RUN_OPTIONS; i++) {
        if (options[i] > known[i].largest) {
            return etd_fail(error, ETD_LINK_STATUS_BAD_REQUEST, options[i], "unsupported ", known[i].name);
        }
    }
    return ETD_LINK_STATUS_OK;
}

static etd_status check_run(const etd_server *server, uint32_t count, etd_error *error) {
    if (count == 0) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_REQUEST, 0, "the number of executions is 0", NULL);
    }
    if (server->state == ETD_LINK_STATE_IDLE) {
        return etd_fail(error, ETD_LINK_STATUS_WRONG_STATE, server->state, "no model loaded", NULL);
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
    etd_status status = check_options(server->config.port, options, error);
    if (status == ETD_LINK_STATUS_OK) {
        status = etd_server_check_counters(server, counters, counter_count, error);
    }
    if (status == ETD_LINK_STATUS_OK) {
        status = check_run(server, count, error);
    }
    if (status != ETD_LINK_STATUS_OK) {
        return status;
    }
    uint32_t capacity = server->config.trace_capacity;
    capacity = limit > 0 && limit < capacity ? limit : capacity;
    bool stream = (options[3] & ETD_LINK_RUN_FLAG_STREAM) != 0 && capacity >= ETD_LOG_HEADER_SIZE;
    *run = (etd_run){
        .id = id,
        .count = count,
        .trace_capacity = stream ? capacity - ETD_LOG_HEADER_SIZE : capacity,
        .stream = stream,
        .crash = (options[3] & ETD_LINK_RUN_FLAG_CRASH) != 0,
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
