/* STAT and READ: outputs and trace go out in frames that interleave with other requests. */
#include "et_sha256.h"
#include "server_internal.h"

#define DATA_HEADER_SIZE 8u
#define DIGEST_CHUNK 128u

/* The bytes of a readable region. */
typedef struct {
    const uint8_t *bytes;
    uint32_t count;          /* of `bytes` */
    uint32_t size;           /* with the log behind them */
    const et_tracer *tracer; /* whose log it is; NULL for none */
    const et_tensor *tensor; /* which output it is; NULL for none */
} et_source;

static et_source bytes_and_log(const void *bytes, uint32_t count, const et_tracer *tracer) {
    return (et_source){.bytes = bytes, .count = count, .size = count + et_log_size(tracer), .tracer = tracer};
}

static et_status find_trace(const et_server *server, uint8_t index, et_source *source, et_error *error) {
    uint32_t size;
    const void *bytes = et_method_trace(&server->method, index, &size);
    if (bytes != NULL) {
        *source = bytes_and_log(bytes, size, NULL);
        return ET_LINK_STATUS_OK;
    }
    const et_tracer *tracer = &server->config.kept->tracer;
    uint32_t debug_size = et_debug_size(tracer);
    if (index == 1 && debug_size > 0) {
        *source = bytes_and_log(server->config.debug, debug_size, NULL);
        return ET_LINK_STATUS_OK;
    }
    if (index != 0) {
        return et_fail(error, ET_LINK_STATUS_BAD_REGION, index, "the trace has no such file", NULL);
    }
    *source = bytes_and_log(NULL, 0, tracer);
    return ET_LINK_STATUS_OK;
}

static et_status find_output(const et_server *server, uint8_t index, et_source *source, et_error *error) {
    if (server->run.error.status != ET_LINK_STATUS_OK) {
        return et_fail(error, ET_LINK_STATUS_WRONG_STATE, server->state, "the run failed, there is no output",
                       NULL);
    }
    const et_tensor *tensor = et_method_output(&server->method, index);
    if (tensor == NULL || tensor->data == NULL) {
        return et_fail(error, ET_LINK_STATUS_BAD_REGION, index, "the model has no such output", NULL);
    }
    *source = bytes_and_log(tensor->data, tensor->nbytes, NULL);
    source->tensor = tensor;
    return ET_LINK_STATUS_OK;
}

static et_status find_postmortem(const et_server *server, uint8_t index, et_source *source, et_error *error) {
    if (server->postmortem == ET_POSTMORTEM_CONDITION_NONE || index != 0) {
        return et_fail(error, ET_LINK_STATUS_BAD_REGION, index, "nothing is kept from before a reset", NULL);
    }
    const et_postmortem *kept = server->config.kept;
    *source = bytes_and_log(kept, sizeof *kept, et_postmortem_tracer(kept, server->config.trace_capacity));
    return ET_LINK_STATUS_OK;
}

/* Finds what a request's body names; refuses what does not exist or would not be true. */
static et_status find_source(const et_server *server, const uint8_t *body, et_source *source,
                             et_error *error) {
    uint8_t region = body[0];
    uint8_t index = body[1];
    if (region == ET_LINK_REGION_POSTMORTEM) {
        return find_postmortem(server, index, source, error);
    }
    if (region != ET_LINK_REGION_TRACE && region != ET_LINK_REGION_OUTPUT) {
        return et_fail(error, ET_LINK_STATUS_BAD_REGION, region, "cannot be read", NULL);
    }
    if (server->state != ET_LINK_STATE_DONE) {
        return et_fail(error, ET_LINK_STATUS_WRONG_STATE, server->state, "nothing has run", NULL);
    }
    return region == ET_LINK_REGION_TRACE ? find_trace(server, index, source, error)
                                          : find_output(server, index, source, error);
}

/* Copies bytes of a source; offset and count are within its size. */
static void copy(const et_source *source, uint32_t offset, uint8_t *out, uint32_t count) {
    uint32_t plain = offset < source->count ? source->count - offset : 0u;
    if (plain > count) {
        plain = count;
    }
    if (plain > 0) {
        memcpy(out, source->bytes + offset, plain);
    }
    (void)et_log_read(source->tracer, offset + plain - source->count, out + plain, count - plain);
}

et_status et_server_stat(et_server *server, et_request *request, et_writer *answer, et_error *error) {
    et_source source = {0};
    et_status status = find_source(server, request->body, &source, error);
    if (status != ET_LINK_STATUS_OK) {
        return status;
    }
    uint8_t chunk[DIGEST_CHUNK];
    uint8_t digest[ET_LINK_DIGEST_SIZE];
    et_sha256 sha;
    et_sha256_init(&sha);
    for (uint32_t offset = 0; offset < source.size;) {
        uint32_t left = source.size - offset;
        uint32_t count = left < sizeof chunk ? left : (uint32_t)sizeof chunk;
        copy(&source, offset, chunk, count);
        et_sha256_update(&sha, chunk, count);
        offset += count;
    }
    et_sha256_final(&sha, digest);
    et_write_status(answer, ET_LINK_STATUS_OK);
    et_write_u32(answer, source.size);
    et_write_bytes(answer, digest, sizeof digest);
    for (uint32_t d = 0; source.tensor != NULL && d < source.tensor->ndim; d++) {
        et_write_u32(answer, (uint32_t)source.tensor->sizes[d]);
    }
    return ET_LINK_STATUS_OK;
}

void et_server_stop_download(et_server *server) {
    server->download_count = 0;
}

static void drop_first_download(et_server *server) {
    server->download_count--;
    memmove(server->downloads, server->downloads + 1, server->download_count * sizeof server->downloads[0]);
}

/* Header of a data frame; its bytes follow. */
static void write_data_header(et_writer *body, uint8_t region, uint8_t index, uint32_t offset) {
    et_write_u8(body, ET_LINK_STATUS_OK);
    et_write_u8(body, region);
    et_write_u8(body, index);
    et_write_u8(body, 0);
    et_write_u32(body, offset);
}

/* Puts a download behind those that wait. One that goes on where the last ends becomes part of it. */
static void enqueue(et_server *server, const et_download *wanted) {
    et_download *queue = server->downloads;
    if (server->download_count > 0) {
        et_download *last = &queue[server->download_count - 1];
        if (last->region == wanted->region && last->index == wanted->index && last->end == wanted->offset) {
            last->end = wanted->end;
            last->sequence = wanted->sequence;
            return;
        }
    }
    if (server->download_count == ET_LINK_READ_QUEUE) {
        drop_first_download(server);
    }
    queue[server->download_count++] = *wanted;
}

et_status et_server_read(et_server *server, et_request *request, et_writer *answer, et_error *error) {
    uint8_t region = request->body[0];
    uint8_t index = request->body[1];
    uint32_t offset = et_get_u32(request->body + 4);
    uint32_t length = et_get_u32(request->body + 8);
    if (length == 0) {
        /* An empty data frame says that no other will follow. */
        et_server_stop_download(server);
        write_data_header(answer, region, index, offset);
        return ET_LINK_STATUS_OK;
    }
    et_source source = {0};
    et_status status = find_source(server, request->body, &source, error);
    if (status != ET_LINK_STATUS_OK) {
        return status;
    }
    if (offset > source.size || length > source.size - offset) {
        return et_fail(error, ET_LINK_STATUS_BAD_REGION, source.size, "beyond the end of the region", NULL);
    }
    const et_download wanted = {
        .offset = offset,
        .end = offset + length,
        .sequence = request->sequence,
        .region = region,
        .index = index,
    };
    enqueue(server, &wanted);
    request->streamed = true;
    return ET_LINK_STATUS_OK;
}

bool et_server_stream(et_server *server) {
    if (server->download_count == 0) {
        return false;
    }
    et_download *download = &server->downloads[0];
    uint32_t left = download->end - download->offset;
    const uint8_t region[2] = {download->region, download->index};
    et_source source = {0};
    /* It was found when the READ came, and whatever takes it away stops the download. */
    if (find_source(server, region, &source, NULL) != ET_LINK_STATUS_OK) {
        et_server_stop_download(server);
        return false;
    }
    et_writer body = et_server_begin_body(server);
    write_data_header(&body, download->region, download->index, download->offset);
    uint32_t room = body.capacity - DATA_HEADER_SIZE;
    uint32_t count = left < room ? left : room;
    copy(&source, download->offset, et_write(&body, count), count);
    download->offset += count;
    et_server_send(server, ET_LINK_OP_READ | ET_LINK_RESPONSE, download->sequence, &body);
    if (download->offset == download->end) {
        drop_first_download(server);
    }
    return true;
}
