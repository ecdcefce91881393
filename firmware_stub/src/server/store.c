// SPDX-License-Identifier: Apache-2.0
/* OPEN, WRITE, COMMIT: receives a region, verifies its digest and takes it into use.
 *
 * A failed COMMIT leaves the region open: repeating it gives the same answer, and missing bytes can still be
 * written. A COMMIT of a region already in use is compared and answered again. A COMMIT with the digest of
 * the placed model takes that one into use, whatever was uploaded.
 *
 * The model is checked and loaded once, at COMMIT, so that unsupported features are reported before a run.
 * Inputs are staged until a run copies them. */
#include <string.h>

#include "etd_sha256.h"
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

static etd_status shape_input(etd_server *server, uint32_t index, const uint8_t *sizes, uint32_t count,
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
    uint32_t size = etd_stored_size(tensor->dtype);
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

static etd_status load_model(etd_server *server, const char *method, etd_error *error) {
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
    uint32_t nbytes = etd_stored_size(tensor->dtype);
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

static void describe_model(const etd_server *server, etd_writer *answer) {
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

/* Finds the region named in a request's body and its capacity. */
static etd_status find_region(etd_server *server, const uint8_t *body, etd_upload *found, etd_error *error) {
    const etd_server_config *config = &server->config;
    uint8_t region = body[0];
    uint8_t index = body[1];
    *found = (etd_upload){.region = region, .index = index};
    if (region == ETD_LINK_REGION_MODEL && index == 0) {
        found->bytes = config->model;
        found->size = config->model_capacity;
        return ETD_LINK_STATUS_OK;
    }
    if (region != ETD_LINK_REGION_INPUT) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_REGION, region, "region is not writable", NULL);
    }
    if (server->state == ETD_LINK_STATE_IDLE) {
        return etd_fail(error, ETD_LINK_STATUS_WRONG_STATE, server->state, "load a model before its inputs",
                        NULL);
    }
    if (index >= server->input_count) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_REGION, server->input_count, "the model has no such input",
                        NULL);
    }
    found->bytes = config->inputs + server->inputs[index].offset;
    found->size = server->inputs[index].capacity;
    return ETD_LINK_STATUS_OK;
}

static bool is_open(const etd_upload *upload, const uint8_t *body) {
    return upload->open && upload->region == body[0] && upload->index == body[1];
}

etd_status etd_server_open(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error) {
    etd_upload upload;
    etd_status status = find_region(server, request->body, &upload, error);
    if (status != ETD_LINK_STATUS_OK) {
        return status;
    }
    uint32_t size = etd_get_u32(request->body + 4);
    const uint32_t shape = request->size - OPEN_SIZE;
    if (shape % sizeof(int32_t) != 0 || (shape != 0 && upload.region != ETD_LINK_REGION_INPUT)) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_REQUEST, OPEN_SIZE, "wrong body size", NULL);
    }
    if (size > upload.size) {
        return etd_fail(error, ETD_LINK_STATUS_TOO_LARGE, upload.size, "larger than the region", NULL);
    }
    if (upload.region == ETD_LINK_REGION_INPUT) {
        server->inputs[upload.index].ready = false;
        status = shape_input(server, upload.index, request->body + OPEN_SIZE,
                             shape / (uint32_t)sizeof(int32_t), error);
    }
    if (status != ETD_LINK_STATUS_OK) {
        return status;
    }
    if (upload.region == ETD_LINK_REGION_MODEL) {
        etd_server_drop_model(server);
        server->model_size = size;
    }
    upload.size = size;
    upload.open = true;
    server->upload = upload;
    etd_write_u8(answer, ETD_LINK_STATUS_OK);
    return ETD_LINK_STATUS_OK;
}

/* Adds a range to the received bytes. Returns false if there are too many gaps to track. */
static bool take_range(etd_upload *upload, uint32_t start, uint32_t end) {
    uint32_t apart = 0;
    for (uint32_t i = 0; i < upload->piece_count; i++) {
        etd_range piece = upload->pieces[i];
        if (piece.end < start || end < piece.start) {
            upload->pieces[apart++] = piece;
        } else {
            start = piece.start < start ? piece.start : start;
            end = piece.end > end ? piece.end : end;
        }
    }
    upload->piece_count = (uint8_t)apart;
    if (start <= upload->next) {
        upload->next = end > upload->next ? end : upload->next;
        return true;
    }
    if (apart == ETD_SERVER_UPLOAD_PIECES) {
        return false;
    }
    upload->pieces[apart] = (etd_range){start, end};
    upload->piece_count++;
    return true;
}

etd_status etd_server_write(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error) {
    etd_upload *upload = &server->upload;
    if (!is_open(upload, request->body)) {
        return etd_fail(error, ETD_LINK_STATUS_WRONG_STATE, server->state, "the region is not open", NULL);
    }
    uint32_t offset = etd_get_u32(request->body + 4);
    const uint8_t *bytes = request->body + 8;
    uint32_t count = request->size - 8;
    if (offset > upload->size || count > upload->size - offset) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_REGION, upload->size, "beyond the announced size", NULL);
    }
    if (!take_range(upload, offset, offset + count)) {
        return etd_fail(error, ETD_LINK_STATUS_GAP, upload->next, "too many gaps before this offset", NULL);
    }
    memcpy(upload->bytes + offset, bytes, count);
    etd_write_status(answer, ETD_LINK_STATUS_OK);
    etd_write_u32(answer, upload->next);
    return ETD_LINK_STATUS_OK;
}

static etd_status check_complete(const etd_upload *upload, etd_error *error) {
    if (upload->next < upload->size) {
        return etd_fail(error, ETD_LINK_STATUS_GAP, upload->next, "upload incomplete", NULL);
    }
    return ETD_LINK_STATUS_OK;
}

static etd_status check_digest(const void *bytes, uint32_t size, const uint8_t *expected, etd_error *error) {
    uint8_t digest[ETD_LINK_DIGEST_SIZE];
    etd_sha256 sha;
    etd_sha256_init(&sha);
    etd_sha256_update(&sha, bytes, size);
    etd_sha256_final(&sha, digest);
    if (memcmp(digest, expected, sizeof digest) != 0) {
        return etd_fail(error, ETD_LINK_STATUS_DIGEST_MISMATCH, size, "SHA-256 mismatch", NULL);
    }
    return ETD_LINK_STATUS_OK;
}

/* Reads the method name of a COMMIT. */
static etd_status read_method(const etd_request *request, char name[ETD_SERVER_METHOD_SIZE],
                              etd_error *error) {
    const char *given = (const char *)request->body + COMMIT_SIZE;
    const uint32_t length = request->size - COMMIT_SIZE;
    if (length >= ETD_SERVER_METHOD_SIZE) {
        return etd_fail(error, ETD_LINK_STATUS_TOO_LARGE, ETD_SERVER_METHOD_SIZE - 1, "method name too long",
                        NULL);
    }
    memset(name, 0, ETD_SERVER_METHOD_SIZE);
    memcpy(name, length == 0 ? ETD_SERVER_METHOD : given, length == 0 ? sizeof ETD_SERVER_METHOD : length);
    return ETD_LINK_STATUS_OK;
}

static bool is_loaded(const etd_server *server, const char *method) {
    return server->loaded && strcmp(server->method.name, method) == 0;
}

/* Takes the placed model into use if the digest is its own. Returns false if it is not. */
static bool choose_placed(etd_server *server, const uint8_t *digest) {
    const etd_placed_model *placed = server->config.placed;
    if (placed == NULL || memcmp(placed->digest, digest, ETD_LINK_DIGEST_SIZE) != 0) {
        return false;
    }
    if (server->model != placed->bytes) {
        etd_server_drop_model(server);
        server->model = placed->bytes;
        server->model_size = placed->size;
    }
    server->upload.open = false;
    return true;
}

static etd_status commit_model(etd_server *server, const etd_request *request, etd_writer *answer,
                               etd_error *error) {
    const uint8_t *body = request->body;
    char method[ETD_SERVER_METHOD_SIZE];
    etd_status status = read_method(request, method, error);
    if (status != ETD_LINK_STATUS_OK) {
        return status;
    }
    const bool placed = choose_placed(server, body + 4);
    const bool open = is_open(&server->upload, body);
    if (open) {
        status = check_complete(&server->upload, error);
    } else if (!placed && server->state == ETD_LINK_STATE_IDLE) {
        status = etd_fail(error, ETD_LINK_STATUS_WRONG_STATE, server->state, "no model upload is open", NULL);
    }
    if (status == ETD_LINK_STATUS_OK) {
        status = check_digest(server->model, server->model_size, body + 4, error);
    }
    if (status == ETD_LINK_STATUS_OK && !is_loaded(server, method)) {
        status = load_model(server, method, error);
    }
    if (status != ETD_LINK_STATUS_OK) {
        return status;
    }
    describe_model(server, answer);
    if (answer->overflow) {
        server->loaded = false;
        server->state = ETD_LINK_STATE_IDLE;
        return etd_fail(error, ETD_LINK_STATUS_UNSUPPORTED_FEATURE, server->config.mtu,
                        "too many tensors to describe in one frame", NULL);
    }
    if (open) {
        server->upload.open = false;
    }
    return ETD_LINK_STATUS_OK;
}

static etd_status commit_input(etd_server *server, const etd_upload *region, const uint8_t *body,
                               etd_error *error) {
    etd_staged_input *input = &server->inputs[region->index];
    bool open = is_open(&server->upload, body);
    etd_status status = ETD_LINK_STATUS_OK;
    if (open && server->upload.size != input->size) {
        status =
            etd_fail(error, ETD_LINK_STATUS_BAD_INPUT, input->size, "size differs from the tensor", NULL);
    } else if (open) {
        status = check_complete(&server->upload, error);
    } else if (!input->ready) {
        status = etd_fail(error, ETD_LINK_STATUS_WRONG_STATE, server->state,
                          "no upload of this input is open", NULL);
    }
    if (status == ETD_LINK_STATUS_OK) {
        status = check_digest(region->bytes, input->size, body + 4, error);
    }
    if (status == ETD_LINK_STATUS_OK && open) {
        input->ready = true;
        server->upload.open = false;
    }
    return status;
}

etd_status etd_server_commit(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error) {
    etd_upload region;
    etd_status status = find_region(server, request->body, &region, error);
    if (status != ETD_LINK_STATUS_OK) {
        return status;
    }
    if (region.region == ETD_LINK_REGION_MODEL) {
        return commit_model(server, request, answer, error);
    }
    if (request->size != COMMIT_SIZE) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_REQUEST, COMMIT_SIZE, "only a model takes a method name",
                        NULL);
    }
    status = commit_input(server, &region, request->body, error);
    etd_write_u8(answer, status);
    return status;
}
