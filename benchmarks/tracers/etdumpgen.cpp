// SPDX-License-Identifier: Apache-2.0
// ExecuTorch's side of benchmarks/tracer_cost.py, called like ours.c. `etdumpgen fits <size>` succeeds when
// ETDumpGen accepts a static buffer of that size.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <executorch/devtools/etdump/etdump_flatcc.h>
#include <executorch/runtime/platform/runtime.h>

#include "scenarios.h"

namespace rt = executorch::runtime;
using executorch::etdump::ETDumpGen;

// As cheap as the counter of the other side, in place of a system call.
extern "C" et_timestamp_t et_pal_current_ticks() {
    static et_timestamp_t now;
    return now += 10;
}

alignas(64) static uint8_t buffer[4u << 20];

static void log_events(rt::EventTracer &tracer, const char *scenario, uint32_t count) {
    if (std::strcmp(scenario, "nothing") == 0) {
        et_timestamp_t (*const volatile clock)() = et_pal_current_ticks; // called as the tracer does
        for (uint32_t i = 0; i < count; i++) {
            clock();
            clock();
        }
    } else if (std::strcmp(scenario, "delegate") == 0) {
        for (uint32_t i = 0; i < count; i++) {
            tracer.end_profiling_delegate(tracer.start_profiling_delegate(nullptr, int32_t(i)), nullptr, 0);
        }
    } else if (std::strcmp(scenario, "afterwards") == 0) {
        for (uint32_t i = 0; i < count; i++) {
            tracer.log_profiling_delegate(LONG_NAME, -1, i, i + 1u, nullptr, 0);
        }
    } else if (std::strcmp(scenario, "unnamed") == 0) {
        for (uint32_t i = 0; i < count; i++) {
            tracer.end_profiling(tracer.start_profiling(nullptr, 0, i));
        }
    } else if (std::strcmp(scenario, "network") != 0) {
        for (uint32_t i = 0; i < count; i++) {
            tracer.end_profiling(tracer.start_profiling(LONG_NAME, 0, i));
        }
    } else {
        for (uint32_t i = 0; i < count; i++) {
            tracer.end_profiling(tracer.start_profiling(network[i % NAMES], 0, i));
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        return EXIT_FAILURE;
    }
    const uint32_t number = uint32_t(std::strtoul(argv[2], nullptr, 10));
    rt::runtime_init();
    if (std::strcmp(argv[1], "state") == 0) {
        return std::printf("%zu\n", sizeof(ETDumpGen)) > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    if (std::strcmp(argv[1], "fits") == 0) {
        ETDumpGen generator({buffer, number});
        generator.create_event_block("Execute");
        return generator.is_static_etdump() ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    ETDumpGen generator({buffer, sizeof buffer});
    generator.create_event_block("Execute");
    log_events(generator, argv[1], number);
    if (std::getenv("COUNT_ONLY") == nullptr) {
        std::printf("%zu\n", generator.get_etdump_data().size);
    }
    return EXIT_SUCCESS;
}
