// SPDX-License-Identifier: Apache-2.0
/* STAT and READ: sends outputs and trace in frames, interleaved with answers to other requests. */
#include "etd_sha256.h"
#include "server_internal.h"

#define DATA_HEADER_SIZE 8u
#define DIGEST_CHUNK 128u

/* Contents of a readable region. */
typedef struct {
    const uint8_t *bytes;
    uint32_t count;               /* of `bytes` */
    uint32_t size;                /* including the logs after `bytes` */
    const etd_tracer *tracer;     /* source of the log; NULL for none */
    const etd_more_tracers *more; /* sources of the logs after it; NULL for none */
    const etd_tensor *tensor;     /* the output, if it is one; otherwise NULL */
} etd_source;

static etd_source bytes_and_log(const void *bytes, uint32_t count, const etd_tracer *tracer) {
    return (etd_source){
        .bytes = bytes, .count = count, .size = count + etd_log_size(tracer), .tracer = tracer};
}

static etd_status find_trace(const etd_server *server, uint8_t index, etd_source *source, etd_error *error) {
    uint32_t size;
    const void *bytes = etd_method_trace(&server->method, index, &size);
    if (bytes != NULL) {
        *source = bytes_and_log(bytes, size, NULL);
        return ETD_LINK_STATUS_OK;
    }
    const etd_tracer *tracer = &server->config.kept->tracer;
    uint32_t debug_size = etd_debug_size(tracer);
    if (index == 1 && debug_size > 0) {
        *source = bytes_and_log(server->config.debug, debug_size, NULL);
        return ETD_LINK_STATUS_OK;
    }
    if (index != 0) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_REGION, index, "no such trace file", NULL);
    }
    *source = bytes_and_log(NULL, 0, tracer);
    source->more = server->config.port->more_tracers;
    for (uint32_t i = 0; source->more != NULL && i < source->more->count; i++) {
        source->size += etd_log_size(source->more->tracers[i]);
    }
    return ETD_LINK_STATUS_OK;
}

static etd_status find_output(const etd_server *server, uint8_t index, etd_source *source, etd_error *error) {
    if (server->run.error.status != ETD_LINK_STATUS_OK) {
        return etd_fail(error, ETD_LINK_STATUS_WRONG_STATE, server->state, "the run failed; no outputs",
                        NULL);
    }
    const etd_tensor *tensor = etd_method_output(&server->method, index);
    if (tensor == NULL || tensor->data == NULL) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_REGION, index, "the model has no such output", NULL);
    }
    *source = bytes_and_log(tensor->data, tensor->nbytes, NULL);
    source->tensor = tensor;
    return ETD_LINK_STATUS_OK;
}

static etd_status find_postmortem(const etd_server *server, uint8_t index, etd_source *source,
                                  etd_error *error) {
    if (server->postmortem == ETD_POSTMORTEM_CONDITION_NONE || index != 0) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_REGION, index, "no postmortem available", NULL);
    }
    const etd_postmortem *kept = server->config.kept;
    *source = bytes_and_log(kept, sizeof *kept, etd_postmortem_tracer(kept, server->config.trace_capacity));
    return ETD_LINK_STATUS_OK;
}

/* Finds the source named in a request's body. Fails if it does not exist or its contents are not valid
 * now. */
static etd_status find_source(const etd_server *server, const uint8_t *body, etd_source *source,
                              etd_error *error) {
    uint8_t region = body[0];
    uint8_t index = body[1];
    if (region == ETD_LINK_REGION_POSTMORTEM) {
        return find_postmortem(server, index, source, error);
    }
    if (region != ETD_LINK_REGION_TRACE && region != ETD_LINK_REGION_OUTPUT) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_REGION, region, "region is not readable", NULL);
    }
    if (server->state != ETD_LINK_STATE_DONE) {
        return etd_fail(error, ETD_LINK_STATUS_WRONG_STATE, server->state, "nothing has run yet", NULL);
    }
    return region == ETD_LINK_REGION_TRACE ? find_trace(server, index, source, error)
                                           : find_output(server, index, source, error);
}

/* Copies bytes of a source; offset and count must be within its size. */
static void copy(const etd_source *source, uint32_t offset, uint8_t *out, uint32_t count) {
    uint32_t plain = offset < source->count ? source->count - offset : 0u;
    if (plain > count) {
        plain = count;
    }
    if (plain > 0) {
        memcpy(out, source->bytes + offset, plain);
    }
    offset = offset + plain - source->count; /* in the logs */
    const etd_tracer *tracer = source->tracer;
    for (uint32_t next = 0; tracer != NULL; next++) {
        uint32_t size = etd_log_size(tracer);
        if (offset < size) {
            plain += etd_log_read(tracer, offset, out + plain, count - plain);
            offset = size;
        }
        offset -= size;
        tracer = source->more != NULL && next < source->more->count ? source->more->tracers[next] : NULL;
    }
}

etd_status etd_server_stat(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error) {
    etd_source source = {0};
    etd_status status = find_source(server, request->body, &source, error);
    if (status != ETD_LINK_STATUS_OK) {
        return status;
    }
    uint8_t chunk[DIGEST_CHUNK];
    uint8_t digest[ETD_LINK_DIGEST_SIZE];
    etd_sha256 sha;
    etd_sha256_init(&sha);
    for (uint32_t offset = 0; offset < source.size;) {
        uint32_t left = source.size - offset;
        uint32_t count = left < sizeof chunk ? left : (uint32_t)sizeof chunk;
        copy(&source, offset, chunk, count);
        etd_sha256_update(&sha, chunk, count);
        offset += count;
    }
    etd_sha256_final(&sha, digest);
    etd_write_status(answer, ETD_LINK_STATUS_OK);
    etd_write_u32(answer, source.size);
    etd_write_bytes(answer, digest, sizeof digest);
    for (uint32_t d = 0; source.tensor != NULL && d < source.tensor->ndim; d++) {
        etd_write_u32(answer, (uint32_t)source.tensor->sizes[d]);
    }
    return ETD_LINK_STATUS_OK;
}

void etd_server_stop_download(etd_server *server) {
    server->download_count = 0;
}

static void drop_first_download(etd_server *server) {
    server->download_count--;
    memmove(server->downloads, server->downloads + 1, server->download_count * sizeof server->downloads[0]);
}

/* Writes the header of a data frame; the bytes follow. */
static void write_data_header(etd_writer *body, uint8_t region, uint8_t index, uint32_t offset) {
    etd_write_u8(body, ETD_LINK_STATUS_OK);
    etd_write_u8(body, region);
    etd_write_u8(body, index);
    etd_write_u8(body, 0);
    etd_write_u32(body, offset);
}

/* Drops the downloads that a new one covers: its READ is a repetition. */
static void drop_covered(etd_server *server, const etd_download *wanted) {
    uint8_t kept = 0;
    for (uint32_t i = 0; i < server->download_count; i++) {
        const etd_download *queued = &server->downloads[i];
        bool covered = queued->region == wanted->region && queued->index == wanted->index &&
                       queued->offset >= wanted->offset && queued->end <= wanted->end;
        if (!covered) {
            server->downloads[kept++] = *queued;
        }
    }
    server->download_count = kept;
}

/* Appends a download to the queue. If it continues the last one, both are merged. */
static void enqueue(etd_server *server, const etd_download *wanted) {
    etd_download *queue = server->downloads;
    drop_covered(server, wanted);
    if (server->download_count > 0) {
        etd_download *last = &queue[server->download_count - 1];
        if (last->region == wanted->region && last->index == wanted->index && last->end == wanted->offset) {
            last->end = wanted->end;
            last->sequence = wanted->sequence;
            return;
        }
    }
    if (server->download_count == ETD_LINK_READ_QUEUE) {
        drop_first_download(server);
    }
    queue[server->download_count++] = *wanted;
}

etd_status etd_server_read(etd_server *server, etd_request *request, etd_writer *answer, etd_error *error) {
    uint8_t region = request->body[0];
    uint8_t index = request->body[1];
    uint32_t offset = etd_get_u32(request->body + 4);
    uint32_t length = etd_get_u32(request->body + 8);
    if (length == 0) {
        /* An empty data frame means that no other will follow. */
        etd_server_stop_download(server);
        write_data_header(answer, region, index, offset);
        return ETD_LINK_STATUS_OK;
    }
    etd_source source = {0};
    etd_status status = find_source(server, request->body, &source, error);
    if (status != ETD_LINK_STATUS_OK) {
        return status;
    }
    /* Together with STAT the host asks before it knows the size. */
    if (offset == 0 && length > source.size && source.size > 0) {
        length = source.size;
    }
    if (offset > source.size || length > source.size - offset) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_REGION, source.size, "beyond the end of the region", NULL);
    }
    const etd_download wanted = {
        .offset = offset,
        .end = offset + length,
        .sequence = request->sequence,
        .region = region,
        .index = index,
    };
    enqueue(server, &wanted);
    request->silent = true;
    return ETD_LINK_STATUS_OK;
}

bool etd_server_stream(etd_server *server) {
    if (server->download_count == 0) {
        return false;
    }
    etd_download *download = &server->downloads[0];
    uint32_t left = download->end - download->offset;
    const uint8_t region[2] = {download->region, download->index};
    etd_source source = {0};
    /* The source was found when READ arrived, and everything that removes it stops the download. */
    if (find_source(server, region, &source, NULL) != ETD_LINK_STATUS_OK) {
        etd_server_stop_download(server);
        return false;
    }
    etd_writer body = etd_server_begin_body(server);
    write_data_header(&body, download->region, download->index, download->offset);
    uint32_t room = body.capacity - DATA_HEADER_SIZE;
    uint32_t count = left < room ? left : room;
    copy(&source, download->offset, etd_write(&body, count), count);
    download->offset += count;
    etd_server_send(server, ETD_LINK_OP_READ | ETD_LINK_RESPONSE, download->sequence, &body);
    if (download->offset == download->end) {
        drop_first_download(server);
    }
    return true;
}
