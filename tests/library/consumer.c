// SPDX-License-Identifier: Apache-2.0
/* A program of someone else, in the common subset of C99 and C++: traces two operators, writes the log to the
 * file named by its argument, and sends a frame to itself. Exit status 0 if all of it worked. */
#include <stdio.h>
#include <string.h>

#include "etd_frame.h"
#include "etd_tracer.h"

#define RUNS 3
#define MTU 64u

/* A clock in the caller's own memory: what the context pointer is for. */
struct stopwatch {
    uint32_t now;
    uint32_t step;
};

static uint32_t read_stopwatch(void *context) {
    struct stopwatch *watch = (struct stopwatch *)context;
    watch->now += watch->step;
    return watch->now;
}

static void run(etd_tracer *tracer) {
    etd_event execute;
    etd_event step;
    etd_create_event_block(tracer, "Execute");
    execute = etd_start_profiling(tracer, "Method::execute", ETD_UNSET_CHAIN, ETD_UNSET_HANDLE);
    step = etd_start_profiling(tracer, "conv", 0, 1);
    etd_end_profiling(tracer, step);
    step = etd_start_profiling(tracer, "relu", 0, 2);
    etd_end_profiling(tracer, step);
    etd_end_profiling(tracer, execute);
}

static int save(const etd_tracer *tracer, const char *path) {
    static uint8_t image[2048];
    uint32_t size = etd_log_read(tracer, 0, image, sizeof image);
    FILE *file = fopen(path, "wb");
    size_t written = file != NULL ? fwrite(image, 1, size, file) : 0;
    return file == NULL || fclose(file) != 0 || written != etd_log_size(tracer);
}

/* Encodes a frame and decodes it again. */
static int talk(void) {
    static uint8_t payload[MTU];
    static uint8_t encoded[ETD_FRAME_ENCODED_SIZE(MTU)];
    static uint8_t received[MTU + 1u];
    etd_frame_decoder decoder;
    etd_frame_result result = ETD_FRAME_NOTHING;
    uint32_t size;
    uint32_t i;
    memcpy(payload + 1, "hello", 5);
    size = etd_frame_encode(payload, 16, encoded);
    etd_frame_decoder_init(&decoder, received, sizeof received);
    for (i = 0; i < size; i++) {
        etd_frame_result now = etd_frame_decode(&decoder, encoded[i]);
        result = now != ETD_FRAME_NOTHING ? now : result;
    }
    return result != ETD_FRAME_GOOD || memcmp(received + 1, "hello", 5) != 0;
}

int main(int argc, char **argv) {
    static uint8_t log[1024];
    static etd_tracer tracer;
    struct stopwatch watch = {0, 5};
    int i;
    if (argc != 2) {
        return 2;
    }
    etd_tracer_init(&tracer, log, sizeof log, read_stopwatch, &watch);
    for (i = 0; i < RUNS; i++) {
        run(&tracer);
    }
    (void)printf("etdump %s\n", ETD_VERSION);
    return save(&tracer, argv[1]) || talk();
}
