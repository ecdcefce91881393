// SPDX-License-Identifier: Apache-2.0
/* Fuzzes the tracer with any sequence of calls on a buffer of any size, which it must stay within. Log and
 * ED00 file must have the announced sizes, and the file must be valid. The first two bytes set the size of
 * the log and debug buffers, the third selects counters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etd_clock.h"
#include "etd_contexts.h"
#include "etd_counters.h"
#include "etd_etdump.h"
#include "etd_marks.h"
#include "etd_recorder.h"
#include "support/ed00_verifier.h"

#define LARGEST 2048u
#define CALL_SIZE 8u /* bytes of input per call: function, name, numbers */

static void check(bool truth) {
    if (!truth) {
        abort();
    }
}

static uint32_t ticks(void *context) {
    (void)context;
    static uint32_t now;
    return now += 1000003u;
}

/* Counters of all widths, up to as many as a log has. */
static const etd_counter counters[ETD_LOG_COUNTERS] = {{"cycles", 32, false}, {"a", 8, true},  {"", 1, true},
                                                       {"b", 31, false},      {"c", 16, true}, {"d", 9, true},
                                                       {"e", 32, true},       {"f", 7, true}};
static uint32_t counted;

static void select_counters(void *context, const uint8_t *indexes, uint32_t count) {
    (void)context;
    (void)indexes;
    counted = count;
}

static void read_counters(void *context, uint32_t *values) {
    for (uint32_t i = 0; i < counted; i++) {
        values[i] = ticks(context) * (i + 1u);
    }
}

/* Starts to count what a byte of input selects; nothing if that is more than counts at once. */
static void start_counting(etd_tracer *tracer, etd_counting *counting, uint8_t input) {
    static const etd_counter_source source = {.counters = counters,
                                              .counter_count = ETD_LOG_COUNTERS,
                                              .selectable_count = 4,
                                              .select = select_counters,
                                              .read = read_counters};
    uint8_t indexes[ETD_LOG_COUNTERS];
    uint32_t count = 0;
    for (uint8_t i = 0; i < ETD_LOG_COUNTERS; i++) {
        if ((input >> i & 1) != 0) {
            indexes[count++] = i;
        }
    }
    bool started = etd_start_counting(tracer, counting, &source, indexes, count);
    check(!started || etd_can_count(&source, indexes, count));
}

typedef struct {
    etd_tracer tracer;
    etd_event event;
    etd_delegate_event delegate;
    etd_event_filter filter;
} subject;

static const char *const names[] = {NULL, "", "a", "Execute", "native_call_relu.out", "*", "a*", "*out"};

/* Tensors of a list; each has more dimensions than the previous one. */
static void tensor_at(const void *context, uint32_t index, etd_logged_tensor *tensor) {
    static const int32_t sizes[CALL_SIZE] = {1, 2, 3, 4, 5, 6, 7, -1};
    static int32_t strides[CALL_SIZE][CALL_SIZE]; /* contiguous, by number of dimensions */
    const uint8_t *input = context;
    uint8_t ndim = (uint8_t)((input[4] + index) % CALL_SIZE);
    int32_t step = 1;
    for (uint8_t d = ndim; d-- > 0;) {
        strides[ndim][d] = step;
        step *= sizes[d];
    }
    uint32_t nbytes = input[5] % (CALL_SIZE + 1u);
    const uint8_t *data = input[3] % 4 != 0 ? input : NULL;
    *tensor = (etd_logged_tensor){data, nbytes, sizes, strides[ndim], ndim, input[3]};
}

static void log_value(etd_tracer *tracer, const uint8_t input[CALL_SIZE], const char *name) {
    static const uint8_t kinds[] = {ETD_LOG_VALUE_NONE,   ETD_LOG_VALUE_INT,    ETD_LOG_VALUE_BOOL,
                                    ETD_LOG_VALUE_DOUBLE, ETD_LOG_VALUE_TENSOR, ETD_LOG_VALUE_TENSOR_LIST};
    etd_logged_value value = {.kind = kinds[input[6] % sizeof kinds]};
    if (value.kind == ETD_LOG_VALUE_TENSOR_LIST) {
        value.as.list.tensor_at = tensor_at;
        value.as.list.context = input;
        value.as.list.count = input[7] % 16 != 0 ? input[7] % 16 : 100000u;
    } else if (value.kind == ETD_LOG_VALUE_TENSOR) {
        tensor_at(input, 0, &value.as.tensor);
    } else if (value.kind == ETD_LOG_VALUE_BOOL) {
        value.as.boolean = input[7] % 2 != 0;
    } else {
        memcpy(&value.as.integer, input, sizeof value.as.integer);
    }
    if (input[2] % 3 == 0) {
        (void)etd_log_intermediate_output_delegate(tracer, name, (int8_t)input[2], &value);
    } else {
        (void)etd_log_evalue(tracer, input[2] % 3 == 1 ? ETD_PROGRAM_OUTPUT : ETD_INTERMEDIATE_OUTPUT,
                             &value);
    }
}

/* A call that starts an event and the one that ends it share a case. */
static void call(subject *subject, const uint8_t input[CALL_SIZE]) {
    etd_tracer *tracer = &subject->tracer;
    const char *name = names[input[1] % 8];
    int32_t chain = (int8_t)input[2];
    uint32_t number = (uint32_t)input[3] << (input[2] % 32);
    const uint8_t *metadata = input[4] % 2 != 0 ? input : NULL;
    uint32_t length = input[5] % (CALL_SIZE + 1);
    switch (input[0] % 19) {
    case 0:
        etd_create_event_block(tracer, name);
        etd_set_bundled_input_index(tracer, chain);
        break;
    case 1:
        etd_set_chain_debug_handle(tracer, chain * 1000, number);
        break;
    case 2:
        subject->event = etd_start_profiling(tracer, name, chain, number);
        break;
    case 3:
        etd_end_profiling(tracer, subject->event);
        break;
    case 4:
        subject->delegate = etd_start_profiling_delegate(tracer, name, chain);
        break;
    case 5:
        etd_end_profiling_delegate(tracer, subject->delegate, metadata, length);
        break;
    case 6:
        etd_log_profiling_delegate(tracer, name, chain, input[6], number, number, metadata, length);
        break;
    case 7:
        (void)etd_track_allocator(tracer, name);
        break;
    case 8:
        etd_track_allocation(tracer, input[6], number, number);
        break;
    case 9:
        etd_track_free(tracer, input[6], number, ETD_LOG_NO_OFFSET);
        etd_track_allocation_failure(tracer, input[6], number);
        break;
    case 10:
        etd_set_profiling_level(tracer, input[1] % 2 != 0 ? ETD_PROFILE_ALL_EVENTS : ETD_PROFILE_METHOD_ONLY);
        break;
    case 11:
        etd_log_recycle(tracer);
        break;
    case 12:
        log_value(tracer, input, name);
        break;
    case 13:
        etd_set_debug_level(tracer, (etd_debug_level)(input[1] % 3));
        etd_set_when_full(tracer, (etd_when_full)(input[2] % 2));
        etd_set_paused(tracer, input[4] % 8 == 0);
        break;
    case 15:
        (void)etd_keep_last(tracer, (uint64_t)number << input[6] % 32u, input[7] % 34u);
        break;
    case 14:
        (void)etd_log_clock(tracer, 0, number, (uint64_t)number << input[6] % 32u);
        break;
    case 16:
        etd_log_switch(tracer, input[4] % 4u, name, number);
        break;
    case 17:
        etd_log_mark(tracer, name);
        etd_log_sample(tracer, name, chain);
        etd_log_sample_float(tracer, name, (float)chain / 3.0f);
        break;
    default:
        subject->filter = (etd_event_filter){names + 1, input[1] % 8, input[4] % 2 != 0, chain, chain + 9};
        etd_set_event_filter(tracer, input[5] % 2 != 0 ? &subject->filter : NULL);
        break;
    }
}

/* A file written into a buffer of the announced size. */
typedef struct {
    uint8_t *bytes;
    uint32_t size;
    uint32_t taken;
} collected;

static bool take(void *context, const void *bytes, uint32_t size) {
    collected *file = context;
    check(size > 0 && size <= file->size - file->taken);
    memcpy(file->bytes + file->taken, bytes, size);
    file->taken += size;
    return true;
}

/* With a directory in ETHARNESS_FUZZ_SAVE, saves the log and the ED00 file of each input there, for tests of
 * other readers. */
static void save(const char *extension, const uint8_t *bytes, uint32_t size) {
    static uint32_t number;
    const char *folder = getenv("ETHARNESS_FUZZ_SAVE");
    if (folder == NULL) {
        return;
    }
    char path[4096];
    check(snprintf(path, sizeof path, "%s/%05u.%s", folder, number++ / 2, extension) < (int)sizeof path);
    FILE *out = fopen(path, "wb");
    check(out != NULL && fwrite(bytes, 1, size, out) == size);
    check(fclose(out) == 0);
}

static void read_log(const etd_tracer *tracer) {
    uint32_t size = etd_log_size(tracer);
    uint8_t *image = malloc(size);
    check(image != NULL && etd_log_read(tracer, 0, image, size) == size);
    save("etlog", image, size);
    free(image);
}

static void write_file(const etd_tracer *tracer, bool allocations) {
    collected file = {.size = etd_etdump_size(tracer, allocations)};
    file.bytes = malloc(file.size);
    check(file.bytes != NULL);
    etd_etdump_sink sink = {take, &file};
    check(etd_etdump_write(tracer, allocations, &sink));
    check(file.taken == file.size);
    check(ed00_is_sound(file.bytes, file.size));
    save("etdp", file.bytes, file.size);
    free(file.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3) {
        return 0;
    }
    uint32_t capacity = (data[0] | (uint32_t)data[1] << 8) % (LARGEST + 1);
    uint32_t debug_capacity = capacity / 8;
    uint8_t *buffer = malloc(capacity);
    uint8_t *debug = malloc(debug_capacity);
    check((buffer != NULL || capacity == 0) && (debug != NULL || debug_capacity == 0));
    subject subject = {0};
    etd_tracer_init(&subject.tracer, buffer, capacity, ticks, NULL);
    etd_counting counting;
    start_counting(&subject.tracer, &counting, data[2]);
    etd_set_debug_buffer(&subject.tracer, debug, debug_capacity);
    etd_set_debug_level(&subject.tracer, ETD_DEBUG_INTERMEDIATE_OUTPUTS);
    for (size_t at = 3; at + CALL_SIZE <= size && at < 4096; at += CALL_SIZE) {
        call(&subject, data + at);
    }
    read_log(&subject.tracer);
    write_file(&subject.tracer, size % 2 != 0);
    check(etd_debug_size(&subject.tracer) <= debug_capacity);
    free(debug);
    free(buffer);
    return 0;
}
