// SPDX-License-Identifier: Apache-2.0
/* Our side of benchmarks/tracer_cost.py: `ours <scenario> <count>` logs that many events and prints the size
 * of the log; `ours state 0` prints the size of the state object. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etd_tracer.h"
#include "scenarios.h"

static uint8_t buffer[4u << 20];
static etd_tracer tracer;

static uint32_t ticks(void *context) {
    (void)context;
    static uint32_t now;
    return now += 10u;
}

static void log_events(const char *scenario, uint32_t count) {
    if (strcmp(scenario, "nothing") == 0) {
        const etd_ticks_fn volatile clock = ticks; /* called as the tracer does */
        for (uint32_t i = 0; i < count; i++) {
            clock(NULL);
            clock(NULL);
        }
    } else if (strcmp(scenario, "interned") == 0) {
        etd_name name = etd_intern(&tracer, LONG_NAME);
        for (uint32_t i = 0; i < count; i++) {
            etd_end_profiling(&tracer, etd_start_profiling_interned(&tracer, name, 0, i));
        }
    } else if (strcmp(scenario, "delegate") == 0) {
        for (uint32_t i = 0; i < count; i++) {
            etd_end_profiling_delegate(&tracer, etd_start_profiling_delegate(&tracer, NULL, (int32_t)i), NULL,
                                      0);
        }
    } else if (strcmp(scenario, "afterwards") == 0) {
        for (uint32_t i = 0; i < count; i++) {
            etd_log_profiling_delegate(&tracer, LONG_NAME, -1, 0, i, i + 1u, NULL, 0);
        }
    } else if (strcmp(scenario, "named") == 0) {
        for (uint32_t i = 0; i < count; i++) {
            etd_end_profiling(&tracer, etd_start_profiling(&tracer, LONG_NAME, 0, i));
        }
    } else if (strcmp(scenario, "scope") == 0) {
        for (uint32_t i = 0; i < count; i++) {
            etd_end_profiling(&tracer, ETD_SCOPE(&tracer, LONG_NAME));
        }
    } else if (strcmp(scenario, "unnamed") == 0) {
        for (uint32_t i = 0; i < count; i++) {
            etd_end_profiling(&tracer, etd_start_profiling(&tracer, NULL, 0, i));
        }
    } else {
        for (uint32_t i = 0; i < count; i++) {
            etd_end_profiling(&tracer, etd_start_profiling(&tracer, network[i % NAMES], 0, i));
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        return EXIT_FAILURE;
    }
    if (strcmp(argv[1], "state") == 0) {
        return printf("%zu\n", sizeof tracer) > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    etd_tracer_init(&tracer, buffer, sizeof buffer, ticks, NULL);
    etd_create_event_block(&tracer, "Execute");
    log_events(argv[1], (uint32_t)strtoul(argv[2], NULL, 10));
    printf("%u\n", (unsigned)etd_log_size(&tracer));
    return EXIT_SUCCESS;
}
