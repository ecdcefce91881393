// SPDX-License-Identifier: Apache-2.0
// Writes the dumps that benchmarks/decoding.py reads: `dump <runs> <events of each> <file>`, made by
// ExecuTorch's own ETDumpGen on the heap.
#include <cstdio>
#include <cstdlib>

#include <executorch/devtools/etdump/etdump_flatcc.h>
#include <executorch/runtime/platform/runtime.h>

#include "scenarios.h"

namespace rt = executorch::runtime;
using executorch::etdump::ETDumpGen;

// Durations that differ, the same ones every time.
extern "C" et_timestamp_t et_pal_current_ticks() {
    static et_timestamp_t now = 1000;
    return now += 100 + (now * 2654435761u >> 20) % 1000;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        return EXIT_FAILURE;
    }
    const uint32_t runs = uint32_t(std::strtoul(argv[1], nullptr, 10));
    const uint32_t events = uint32_t(std::strtoul(argv[2], nullptr, 10));
    rt::runtime_init();
    ETDumpGen generator;
    for (uint32_t run = 0; run < runs; run++) {
        generator.create_event_block("Execute");
        for (uint32_t i = 0; i < events; i++) {
            generator.end_profiling(generator.start_profiling(network[i % NAMES], 0, i / 2));
        }
    }
    const auto dump = generator.get_etdump_data();
    FILE *file = std::fopen(argv[3], "wb");
    const bool written = file != nullptr && std::fwrite(dump.buf, 1, dump.size, file) == dump.size;
    return written && std::fclose(file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
