/* RUN: the method loaded and executed under the tracer, on a clock that starts at zero. Nothing is read from
 * the line meanwhile, and only notes are sent, between executions: a deterministic target stays so. */
#include <string.h>

#include "server_internal.h"

#define RUN_OPTIONS 4u

static void send_note(et_server *server, uint8_t type) {
    const et_run *run = &server->run;
    et_writer note = et_server_begin_body(server);
    et_write_u32(&note, run->id);
    et_write_u32(&note, run->completed);
    if (type == ET_LINK_OP_NOTE_DONE) {
        et_server_write_error(&note, &run->error);
    }
    et_server_send(server, type, 0, &note);
}

/* Copies the staged inputs into the model. A program whose kernels have made an input something else that
 * does not take the bytes is refused. */
static et_status copy_inputs(et_server *server, et_error *error) {
    for (uint32_t i = 0; i < server->input_count; i++) {
        const et_staged_input *input = &server->inputs[i];
        const et_tensor *tensor = et_method_input(&server->method, i);
        if (tensor == NULL || tensor->constant ||
            (tensor->bounds != NULL &&
             !et_method_resize_input(&server->method, i, et_server_input_sizes(server, i))) ||
            tensor->nbytes != input->size) {
            return et_fail(error, ET_LINK_STATUS_BAD_INPUT, input->size, "the model has changed an input",
                           NULL);
        }
        memcpy(tensor->data, server->config.inputs + input->offset, input->size);
    }
    return ET_LINK_STATUS_OK;
}

static void between_instructions(void *context) {
    et_server_stream_log(context);
}

static et_status execute_all(et_server *server, et_error *error) {
    const et_server_config *config = &server->config;
    et_run *run = &server->run;
    et_method_unload(&server->method);
    et_status status = et_method_load(&server->method, &server->program, server->method.name, config->arena,
                                      config->arena_capacity, &config->kept->tracer, error);
    server->loaded = status == ET_LINK_STATUS_OK;
    if (run->stream) {
        server->method.between = between_instructions;
        server->method.between_context = server;
    }
    while (status == ET_LINK_STATUS_OK && run->completed < run->count) {
        status = copy_inputs(server, error);
        if (status == ET_LINK_STATUS_OK) {
            status = et_method_execute(&server->method, error);
        }
        if (status == ET_LINK_STATUS_OK) {
            et_server_stream_log(server);
            run->completed++;
            config->kept->run.completed = run->completed;
            send_note(server, ET_LINK_OP_NOTE_PROGRESS);
        }
    }
    return status;
}

_Static_assert((uint32_t)ET_LINK_DEBUG_LEVEL_INTERMEDIATE_OUTPUTS ==
                       (uint32_t)ET_DEBUG_INTERMEDIATE_OUTPUTS &&
                   (uint32_t)ET_LINK_DEBUG_LEVEL_PROGRAM_OUTPUTS == (uint32_t)ET_DEBUG_PROGRAM_OUTPUTS &&
                   (uint32_t)ET_LINK_PROFILING_LEVEL_ALL_EVENTS == (uint32_t)ET_PROFILE_ALL_EVENTS &&
                   (uint32_t)ET_LINK_WHEN_FULL_DROP_OLDEST_RUNS == (uint32_t)ET_WHEN_FULL_DROP_OLDEST_RUNS,
               "choices come from the link as the tracer numbers them");

static void init_tracer(et_server *server) {
    const et_server_config *config = &server->config;
    et_tracer *tracer = &config->kept->tracer;
    et_tracer_init(tracer, config->trace, server->run.trace_capacity, config->port->ticks);
    et_set_debug_buffer(tracer, config->debug, config->debug_capacity);
    et_set_debug_level(tracer, (et_debug_level)server->run.debug_level);
    et_set_profiling_level(tracer, (et_profiling_level)server->run.profiling_level);
    et_set_when_full(tracer, (et_when_full)server->run.when_full);
}

static void start_run(et_server *server) {
    const et_server_config *config = &server->config;
    server->state = ET_LINK_STATE_RUNNING;
    et_server_stop_download(server);
    et_server_clear_postmortem(server);
    et_stack_paint(config->port);
    et_server_quiet(server, true);
    config->port->restart_clock();
    server->epoch++;
    init_tracer(server);
    et_postmortem_begin_run(config->kept, server->run.id, server->run.count);
    (void)execute_all(server, &server->run.error);
    et_postmortem_end_run(config->kept);
    et_stack_use stack = et_stack_read(config->port);
    et_set_stack_used(&config->kept->tracer, stack.used, stack.size);
    server->state = ET_LINK_STATE_DONE;
    et_server_quiet(server, false);
    send_note(server, ET_LINK_OP_NOTE_DONE);
}

/* What may be chosen for a run: bytes behind its trace limit. */
static et_status check_options(const uint8_t *options, et_error *error) {
    static const struct {
        const char *name;
        uint8_t largest;
    } known[RUN_OPTIONS] = {
        {"debug level", ET_LINK_DEBUG_LEVEL_INTERMEDIATE_OUTPUTS},
        {"profiling level", ET_LINK_PROFILING_LEVEL_ALL_EVENTS},
        {"policy for a full log", ET_LINK_WHEN_FULL_DROP_OLDEST_RUNS},
        {"flags", ET_LINK_RUN_FLAG_STREAM},
    };
    for (uint32_t i = 0; i < RUN_OPTIONS; i++) {
        if (options[i] > known[i].largest) {
            return et_fail(error, ET_LINK_STATUS_BAD_REQUEST, options[i], "not known here: ", known[i].name);
        }
    }
    return ET_LINK_STATUS_OK;
}

static et_status check_run(const et_server *server, uint32_t count, et_error *error) {
    if (count == 0) {
        return et_fail(error, ET_LINK_STATUS_BAD_REQUEST, 0, "nothing to execute", NULL);
    }
    if (server->state == ET_LINK_STATE_IDLE) {
        return et_fail(error, ET_LINK_STATUS_WRONG_STATE, server->state, "no model", NULL);
    }
    for (uint32_t i = 0; i < server->input_count; i++) {
        if (!server->inputs[i].ready) {
            return et_fail(error, ET_LINK_STATUS_BAD_INPUT, server->inputs[i].size, "an input is missing",
                           NULL);
        }
    }
    return ET_LINK_STATUS_OK;
}

et_status et_server_run(et_server *server, et_request *request, et_writer *answer, et_error *error) {
    et_run *run = &server->run;
    uint32_t id = et_get_u32(request->body);
    uint32_t count = et_get_u32(request->body + 4);
    uint32_t limit = et_get_u32(request->body + 8);
    if (run->repeatable && id == run->id) {
        *error = run->error;
        et_write_u8(answer, run->error.status);
        return run->error.status;
    }
    const uint8_t *options = request->body + 12;
    et_status status = check_options(options, error);
    if (status == ET_LINK_STATUS_OK) {
        status = check_run(server, count, error);
    }
    if (status != ET_LINK_STATUS_OK) {
        return status;
    }
    uint32_t capacity = server->config.trace_capacity;
    *run = (et_run){
        .id = id,
        .count = count,
        .trace_capacity = limit > 0 && limit < capacity ? limit : capacity,
        .stream = (options[3] & ET_LINK_RUN_FLAG_STREAM) != 0,
        .debug_level = options[0],
        .profiling_level = options[1],
        .when_full = options[2],
        .repeatable = true,
    };
    request->then = start_run;
    et_write_u8(answer, ET_LINK_STATUS_OK);
    return ET_LINK_STATUS_OK;
}
