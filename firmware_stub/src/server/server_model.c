// SPDX-License-Identifier: Apache-2.0
/* The model: checked and loaded once at COMMIT, so that unsupported features are reported before a run;
 * staging of inputs; description for the host. */
#include <string.h>

#include "server_internal.h"

#define INPUT_ALIGNMENT 16u
#define MAX_COUNT UINT8_MAX /* of inputs or outputs in the description */

void etd_server_drop_model(etd_server *server) {
    etd_method_unload(&server->method);
    server->state = ETD_LINK_STATE_IDLE;
    server->loaded = false;
    server->model = server->config.model;
    server->model_size = 0;
    server->input_count = 0;
    server->upload.open = false;
    server->run.repeatable = false;
    etd_server_stop_download(server);
}

int32_t *etd_server_input_sizes(const etd_server *server, uint32_t index) {
    const etd_staged_input *input = &server->inputs[index];
    return (int32_t *)(void *)(server->config.inputs + input->offset + input->capacity);
}

etd_status etd_server_shape_input(etd_server *server, uint32_t index, const uint8_t *sizes, uint32_t count,
                                  etd_error *error) {
    const etd_tensor *tensor = etd_method_input(&server->method, index);
    etd_staged_input *input = &server->inputs[index];
    if (count == 0 && tensor->bounds == NULL) {
        return ETD_LINK_STATUS_OK;
    }
    if (count != tensor->ndim && count != 0) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_INPUT, input->size, "wrong number of sizes", NULL);
    }
    if (tensor->bounds == NULL) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_INPUT, input->size, "the input's shape is static", NULL);
    }
    uint32_t size = etd_element_size(tensor->dtype);
    for (uint32_t d = 0; d < tensor->ndim; d++) {
        const uint32_t bound = etd_get_u32(tensor->bounds + 4u * d);
        const uint32_t given = count == 0 ? bound : etd_get_u32(sizes + 4u * d);
        if (given > bound) {
            return etd_fail(error, ETD_LINK_STATUS_BAD_INPUT, input->capacity,
                            "sizes exceed the bounds of the shape", NULL);
        }
        size *= given;
        etd_server_input_sizes(server, index)[d] = (int32_t)given;
    }
    input->size = size;
    return ETD_LINK_STATUS_OK;
}

/* Assigns a part of the staging buffer to each input. */
static etd_status stage_inputs(etd_server *server, etd_error *error) {
    const etd_method *method = &server->method;
    if (method->input_count > ETD_SERVER_MAX_INPUTS) {
        return etd_fail(error, ETD_LINK_STATUS_UNSUPPORTED_FEATURE, method->input_count, "too many inputs",
                        NULL);
    }
    uint32_t capacity = server->config.input_capacity;
    uint32_t used = 0;
    for (uint32_t i = 0; i < method->input_count; i++) {
        const etd_tensor *tensor = etd_method_input(method, i);
        if (tensor == NULL || tensor->data == NULL) {
            return etd_fail(error, ETD_LINK_STATUS_UNSUPPORTED_FEATURE, i, "input is not a tensor in memory",
                            NULL);
        }
        const uint32_t sizes = tensor->bounds != NULL ? tensor->ndim * (uint32_t)sizeof(int32_t) : 0;
        const uint32_t bytes = tensor->nbytes + (0u - tensor->nbytes) % (uint32_t)sizeof(int32_t);
        if (used > capacity || bytes + sizes > capacity - used) {
            return etd_fail(error, ETD_LINK_STATUS_TOO_LARGE, capacity, "inputs exceed the staging buffer",
                            NULL);
        }
        server->inputs[i] = (etd_staged_input){.offset = used, .capacity = bytes, .size = tensor->nbytes};
        memcpy(etd_server_input_sizes(server, i), tensor->sizes, sizes);
        used += bytes + sizes;
        used += (0u - used) % INPUT_ALIGNMENT;
    }
    server->input_count = method->input_count;
    return ETD_LINK_STATUS_OK;
}

static etd_status check_outputs(const etd_method *method, etd_error *error) {
    if (method->output_count > MAX_COUNT) {
        return etd_fail(error, ETD_LINK_STATUS_UNSUPPORTED_FEATURE, method->output_count, "too many outputs",
                        NULL);
    }
    for (uint32_t i = 0; i < method->output_count; i++) {
        const etd_tensor *tensor = etd_method_output(method, i);
        if (tensor == NULL) {
            return etd_fail(error, ETD_LINK_STATUS_UNSUPPORTED_FEATURE, i, "output is not a tensor", NULL);
        }
    }
    return ETD_LINK_STATUS_OK;
}

etd_status etd_server_load_model(etd_server *server, const char *method, etd_error *error) {
    const etd_server_config *config = &server->config;
    etd_method_unload(&server->method);
    server->state = ETD_LINK_STATE_IDLE;
    etd_status status = etd_program_open(&server->program, server->model, server->model_size, error);
    if (status == ETD_LINK_STATUS_OK) {
        status = etd_method_load(&server->method, &server->program, method, config->arena,
                                 config->arena_capacity, NULL, error);
    }
    if (status == ETD_LINK_STATUS_OK) {
        status = stage_inputs(server, error);
    }
    if (status == ETD_LINK_STATUS_OK) {
        status = check_outputs(&server->method, error);
    }
    server->loaded = status == ETD_LINK_STATUS_OK;
    if (server->loaded) {
        server->state = ETD_LINK_STATE_READY;
    }
    return status;
}

/* Describes a tensor as loaded: dynamic sizes at their upper bounds, even if a run has changed them. */
static void describe_tensor(const etd_tensor *tensor, etd_writer *answer) {
    const bool is_dynamic = tensor->bounds != NULL;
    uint32_t sizes[ETD_MAX_DIMS];
    uint32_t nbytes = etd_element_size(tensor->dtype);
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        sizes[i] = is_dynamic ? etd_get_u32(tensor->bounds + 4u * i) : (uint32_t)tensor->sizes[i];
        nbytes *= sizes[i];
    }
    etd_write_u8(answer, tensor->dtype);
    etd_write_u8(answer, tensor->ndim);
    etd_write_u8(answer, is_dynamic);
    etd_write_u8(answer, 0);
    etd_write_u32(answer, nbytes);
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        etd_write_u32(answer, sizes[i]);
    }
    etd_write_bytes(answer, tensor->dim_order, tensor->ndim);
}

void etd_server_describe_model(const etd_server *server, etd_writer *answer) {
    const etd_method *method = &server->method;
    etd_write_u8(answer, ETD_LINK_STATUS_OK);
    etd_write_u8(answer, method->input_count);
    etd_write_u8(answer, method->output_count);
    etd_write_u8(answer, 0);
    etd_write_u32(answer, method->planned_bytes);
    etd_write_u32(answer, method->method_bytes);
    for (uint32_t i = 0; i < method->input_count; i++) {
        describe_tensor(etd_method_input(method, i), answer);
    }
    for (uint32_t i = 0; i < method->output_count; i++) {
        describe_tensor(etd_method_output(method, i), answer);
    }
}
