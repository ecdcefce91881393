/* The model on the device: parsed and dry-loaded when it is committed, so that what it cannot do is known
 * before it runs; its inputs' places; its description. */
#include "server_internal.h"

#define INPUT_ALIGNMENT 16u
#define MAX_COUNT UINT8_MAX /* of inputs or outputs in the description */

void et_server_drop_model(et_server *server) {
    et_method_unload(&server->method);
    server->state = ET_LINK_STATE_IDLE;
    server->loaded = false;
    server->model_size = 0;
    server->input_count = 0;
    server->upload.open = false;
    server->run.repeatable = false;
    et_server_stop_download(server);
}

/* Gives every input a place of its own in the staging buffer. */
static et_status stage_inputs(et_server *server, et_error *error) {
    const et_method *method = &server->method;
    if (method->input_count > ET_SERVER_MAX_INPUTS) {
        return et_fail(error, ET_LINK_STATUS_UNSUPPORTED_FEATURE, method->input_count, "too many inputs",
                       NULL);
    }
    uint32_t capacity = server->config.input_capacity;
    uint32_t used = 0;
    for (uint32_t i = 0; i < method->input_count; i++) {
        const et_tensor *tensor = et_method_input(method, i);
        if (tensor == NULL || tensor->data == NULL) {
            return et_fail(error, ET_LINK_STATUS_UNSUPPORTED_FEATURE, i, "input is not a tensor with memory",
                           NULL);
        }
        if (used > capacity || tensor->nbytes > capacity - used) {
            return et_fail(error, ET_LINK_STATUS_TOO_LARGE, capacity, "inputs exceed the staging buffer",
                           NULL);
        }
        server->inputs[i] = (et_staged_input){.offset = used, .size = tensor->nbytes, .ready = false};
        used += tensor->nbytes;
        used += (0u - used) % INPUT_ALIGNMENT;
    }
    server->input_count = method->input_count;
    return ET_LINK_STATUS_OK;
}

static et_status check_outputs(const et_method *method, et_error *error) {
    if (method->output_count > MAX_COUNT) {
        return et_fail(error, ET_LINK_STATUS_UNSUPPORTED_FEATURE, method->output_count, "too many outputs",
                       NULL);
    }
    for (uint32_t i = 0; i < method->output_count; i++) {
        const et_tensor *tensor = et_method_output(method, i);
        if (tensor == NULL) {
            return et_fail(error, ET_LINK_STATUS_UNSUPPORTED_FEATURE, i, "output is not a tensor", NULL);
        }
    }
    return ET_LINK_STATUS_OK;
}

et_status et_server_load_model(et_server *server, const char *method, et_error *error) {
    const et_server_config *config = &server->config;
    et_method_unload(&server->method);
    server->state = ET_LINK_STATE_IDLE;
    et_status status = et_program_open(&server->program, config->model, server->model_size, error);
    if (status == ET_LINK_STATUS_OK) {
        status = et_method_load(&server->method, &server->program, method, config->arena,
                                config->arena_capacity, NULL, error);
    }
    if (status == ET_LINK_STATUS_OK) {
        status = stage_inputs(server, error);
    }
    if (status == ET_LINK_STATUS_OK) {
        status = check_outputs(&server->method, error);
    }
    server->loaded = status == ET_LINK_STATUS_OK;
    if (server->loaded) {
        server->state = ET_LINK_STATE_READY;
    }
    return status;
}

static void describe_tensor(const et_tensor *tensor, et_writer *answer) {
    et_write_u8(answer, tensor->dtype);
    et_write_u8(answer, tensor->ndim);
    et_write_u16(answer, 0);
    et_write_u32(answer, tensor->nbytes);
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        et_write_u32(answer, (uint32_t)tensor->sizes[i]);
    }
    et_write_bytes(answer, tensor->dim_order, tensor->ndim);
}

void et_server_describe_model(const et_server *server, et_writer *answer) {
    const et_method *method = &server->method;
    et_write_u8(answer, ET_LINK_STATUS_OK);
    et_write_u8(answer, method->input_count);
    et_write_u8(answer, method->output_count);
    et_write_u8(answer, 0);
    et_write_u32(answer, method->planned_bytes);
    et_write_u32(answer, method->method_bytes);
    for (uint32_t i = 0; i < method->input_count; i++) {
        describe_tensor(et_method_input(method, i), answer);
    }
    for (uint32_t i = 0; i < method->output_count; i++) {
        describe_tensor(et_method_output(method, i), answer);
    }
}
