// SPDX-License-Identifier: Apache-2.0
/* Fuzzes the server with frames of any type and body, and with raw bytes. Every request must be answered,
 * except LOG_ACK, to which a body of the right size gets none; and the server must stay within its memory.
 *
 * An input is a list of steps: u8 kind, u8 length, bytes. Kinds below 0x80 are requests of that type; a
 * COMMIT gets the correct digest, which a fuzzer cannot guess. The other kinds are listed below. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etd_clock.h"
#include "etd_server.h"
#include "etd_sha256.h"

#define MTU 256u
#define BAUD 256u /* small, so that a fuzzer finds it */
#define MODEL_CAPACITY 1024u
#define ARENA_CAPACITY 4096u
#define INPUT_CAPACITY 64u
#define TRACE_CAPACITY 1024u
#define DEBUG_CAPACITY 256u
#define MAX_EXECUTIONS 3u /* of one RUN */
#define MAX_POLLS 10000u  /* limit until the server must be idle */
#define RUN_COUNT_AT 4u   /* in the body of RUN */
#define DIGEST_AT 4u      /* in the body of COMMIT */
#define SETTLED 0x80u     /* kind: poll the server until it is idle */
#define RAW 0x81u         /* kind: raw bytes on the line */
#define WHOLE_MODEL 0x82u /* kind: write fuzz/tiny_relu.pte, modified by the bytes of the step */

static uint8_t tiny_model[MODEL_CAPACITY];
static uint32_t tiny_model_size;

static uint8_t line[4 * ETD_FRAME_ENCODED_SIZE(MTU)]; /* towards the server */
static uint32_t line_size;
static uint32_t answered; /* answers since the last request */
static uint32_t now;
static etd_server *server;

static void check(int truth) {
    if (!truth) {
        abort();
    }
}

static uint32_t port_read(void *context, uint8_t *bytes, uint32_t size) {
    (void)context;
    uint32_t count = size < line_size ? size : line_size;
    memcpy(bytes, line, count);
    line_size -= count;
    memmove(line, line + count, line_size);
    return count;
}

/* Checks that everything sent is one whole frame. */
static void port_write(void *context, const uint8_t *bytes, uint32_t size) {
    (void)context;
    static uint8_t payload[ETD_FRAME_ENCODED_SIZE(MTU)];
    etd_frame_decoder decoder;
    etd_frame_decoder_init(&decoder, payload, ETD_SERVER_RECEIVE_SIZE(MTU));
    etd_frame_result result = ETD_FRAME_NOTHING;
    for (uint32_t i = 0; i < size; i++) {
        result = etd_frame_decode(&decoder, bytes[i]);
        check(result == ETD_FRAME_NOTHING || i + 1 == size);
    }
    check(result == ETD_FRAME_GOOD && decoder.size <= MTU);
    answered += (payload[1] & ETD_LINK_RESPONSE) != 0;
}

static void nothing(void *context) {
    (void)context;
}

static uint32_t ticks(void *context) {
    (void)context;
    return ++now;
}

/* Checks that the server chooses one of the offered rates. */
static void set_baud(void *context, uint32_t baud) {
    (void)context;
    check(baud == BAUD || baud == 2 * BAUD);
}

static void settle(void) {
    for (uint32_t i = 0; i < MAX_POLLS; i++) {
        if (!etd_server_poll(server)) {
            return;
        }
    }
    abort();
}

static void put_on_line(const uint8_t *bytes, uint32_t size) {
    if (size > sizeof line - line_size) {
        settle();
    }
    memcpy(line + line_size, bytes, size);
    line_size += size;
}

static void fill_digest(uint8_t *body) {
    const etd_upload *upload = &server->upload;
    etd_sha256 sha;
    etd_sha256_init(&sha);
    if (body[0] == ETD_LINK_REGION_MODEL) {
        etd_sha256_update(&sha, server->config.model, server->model_size);
    } else if (upload->open) {
        etd_sha256_update(&sha, upload->bytes, upload->size);
    }
    etd_sha256_final(&sha, body + DIGEST_AT);
}

static void send_request(uint8_t op, const uint8_t *body, uint32_t size) {
    uint8_t payload[MTU] = {0, op, 1, 0};
    uint8_t encoded[ETD_FRAME_ENCODED_SIZE(MTU)];
    memcpy(payload + ETD_LINK_HEADER_SIZE, body, size);
    uint8_t *copy = payload + ETD_LINK_HEADER_SIZE;
    if (op == ETD_LINK_OP_COMMIT && size == DIGEST_AT + ETD_LINK_DIGEST_SIZE) {
        fill_digest(copy);
    }
    if (op == ETD_LINK_OP_RUN && size > RUN_COUNT_AT) {
        copy[RUN_COUNT_AT] %= MAX_EXECUTIONS + 1u;
        memset(copy + RUN_COUNT_AT + 1, 0, size - RUN_COUNT_AT - 1 < 3 ? size - RUN_COUNT_AT - 1 : 3);
    }
    uint32_t around = ETD_LINK_HEADER_SIZE + ETD_LINK_CRC_SIZE;
    put_on_line(encoded, etd_frame_encode(payload, size + around, encoded));
}

static void expect_answer(uint8_t op, const uint8_t *body, uint32_t size) {
    /* End an incomplete frame left by raw bytes. */
    settle();
    static const uint8_t delimiter = 0;
    put_on_line(&delimiter, 1);
    settle();
    answered = 0;
    send_request(op, body, size);
    settle();
    if (op == ETD_LINK_OP_LOG_ACK) {
        check(answered <= 1);
    } else {
        check(op == ETD_LINK_OP_READ ? answered >= 1 : answered == 1);
    }
}

/* Uploads the tiny model. Each three bytes of `changes` are an offset and the value to store there. */
static void write_model(const uint8_t *changes, uint32_t size) {
    static uint8_t model[MODEL_CAPACITY];
    memcpy(model, tiny_model, tiny_model_size);
    for (uint32_t i = 0; i + 2 < size; i += 3) {
        model[(changes[i] | (uint32_t)changes[i + 1] << 8) % tiny_model_size] = changes[i + 2];
    }
    uint8_t body[8 + 128] = {ETD_LINK_REGION_MODEL};
    body[4] = (uint8_t)tiny_model_size;
    body[5] = (uint8_t)(tiny_model_size >> 8);
    expect_answer(ETD_LINK_OP_OPEN, body, 8);
    for (uint32_t at = 0; at < tiny_model_size; at += 128) {
        uint32_t count = tiny_model_size - at < 128 ? tiny_model_size - at : 128;
        body[4] = (uint8_t)at;
        body[5] = (uint8_t)(at >> 8);
        memcpy(body + 8, model + at, count);
        expect_answer(ETD_LINK_OP_WRITE, body, 8 + count);
    }
    body[4] = body[5] = 0;
    expect_answer(ETD_LINK_OP_COMMIT, body, DIGEST_AT + ETD_LINK_DIGEST_SIZE);
}

static void step(uint8_t kind, const uint8_t *bytes, uint32_t size) {
    switch (kind) {
    case SETTLED:
        settle();
        break;
    case RAW:
        put_on_line(bytes, size);
        break;
    case WHOLE_MODEL:
        write_model(bytes, size);
        break;
    default:
        if (kind < ETD_LINK_RESPONSE) {
            expect_answer(kind, bytes, size);
        } else {
            send_request((uint8_t)(kind & ~ETD_LINK_RESPONSE), bytes, size);
        }
        break;
    }
}

/* Allocates exactly `size` bytes, so that a sanitizer detects accesses past the end. */
static void *block(uint32_t size) {
    uint8_t *bytes = calloc(1, size);
    check(bytes != NULL && (uintptr_t)bytes % 16 == 0);
    return bytes;
}

/* A second tracer, whose log follows the server's own. */
static etd_tracer second;

static void begin_second(void *context, etd_tracer *own) {
    static uint8_t log[80];
    (void)context;
    etd_tracer_init(&second, log, sizeof log, ticks, NULL);
    etd_set_tracer_number(&second, 1);
    (void)etd_log_clock(own, 0, now, now);
    (void)etd_log_clock(&second, 1000, now, now);
    etd_create_event_block(&second, "Work");
}

static void end_second(void *context, etd_tracer *own) {
    (void)context;
    (void)own;
    etd_end_profiling(&second, ETD_SCOPE(&second, "work"));
}

static etd_server_config configure(void) {
    static const uint32_t bauds[] = {BAUD, 2 * BAUD};
    static const etd_tracer *const tracers[] = {&second};
    static const etd_more_tracers more = {tracers,      1,         80 + ETD_LOG_HEADER_SIZE, NULL,
                                          begin_second, end_second};
    static const etd_port port = {
        .read = port_read,
        .write = port_write,
        .idle = nothing,
        .ticks = ticks,
        .restart_clock = nothing,
        .reboot = nothing,
        .set_baud = set_baud,
        .more_tracers = &more,
    };
    static const etd_clock npu = {"npu", 1, 3, 24, true};
    static const etd_target target = {"fuzz", "host", "clock", 1000, 1, 32, 1, 2, bauds, &npu};
    return (etd_server_config){
        .port = &port,
        .target = &target,
        .build_id = "fuzz",
        .model = block(MODEL_CAPACITY),
        .model_capacity = MODEL_CAPACITY,
        .arena = block(ARENA_CAPACITY),
        .arena_capacity = ARENA_CAPACITY,
        .inputs = block(INPUT_CAPACITY),
        .input_capacity = INPUT_CAPACITY,
        .trace = block(TRACE_CAPACITY),
        .trace_capacity = TRACE_CAPACITY,
        .debug = block(DEBUG_CAPACITY),
        .debug_capacity = DEBUG_CAPACITY,
        .kept = block(sizeof(etd_postmortem)),
        .receive = block(ETD_SERVER_RECEIVE_SIZE(MTU)),
        .send = block(MTU),
        .encoded = block(ETD_FRAME_ENCODED_SIZE(MTU)),
        .mtu = MTU,
    };
}

static void release(const etd_server_config *config) {
    free(config->kept);
    free(config->model);
    free(config->arena);
    free(config->inputs);
    free(config->trace);
    free(config->debug);
    free(config->receive);
    free(config->send);
    free(config->encoded);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    FILE *file = fopen(ETD_FUZZ_DIRECTORY "/tiny_relu.pte", "rb");
    check(file != NULL);
    tiny_model_size = (uint32_t)fread(tiny_model, 1, sizeof tiny_model, file);
    check(tiny_model_size > 0 && fclose(file) == 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    etd_server_config config = configure();
    server = calloc(1, sizeof *server);
    check(server != NULL);
    line_size = 0;
    now = 0;
    etd_server_init(server, &config);
    while (size >= 2) {
        uint8_t kind = data[0];
        size_t count = data[1] < size - 2 ? data[1] : size - 2;
        if (count > MTU - ETD_LINK_HEADER_SIZE - ETD_LINK_CRC_SIZE) {
            count = MTU - ETD_LINK_HEADER_SIZE - ETD_LINK_CRC_SIZE;
        }
        step(kind, data + 2, (uint32_t)count);
        data += 2 + count;
        size -= 2 + count;
    }
    settle();
    free(server);
    release(&config);
    return 0;
}
