// SPDX-License-Identifier: Apache-2.0
// A static ETDumpGen, reset after each of some dumps: `reset_dumps <dumps> <folder>` writes each dump
// as it is handed out. Dump n has n + 1 events, named after it.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <executorch/devtools/etdump/etdump_flatcc.h>
#include <executorch/runtime/platform/runtime.h>

using executorch::etdump::ETDumpGen;

alignas(64) static uint8_t buffer[1u << 20];

int main(int argc, char **argv) {
    if (argc != 3) {
        return EXIT_FAILURE;
    }
    executorch::runtime::runtime_init();
    ETDumpGen generator({buffer, sizeof buffer});
    for (int number = 0; number < std::atoi(argv[1]); number++) {
        const std::string name = "dump " + std::to_string(number);
        generator.create_event_block("Execute");
        for (int i = 0; i <= number; i++) {
            generator.end_profiling(generator.start_profiling(name.c_str(), 0, uint32_t(i)));
        }
        const auto dump = generator.get_etdump_data();
        FILE *file = std::fopen((std::string(argv[2]) + "/" + std::to_string(number)).c_str(), "wb");
        if (file == nullptr || std::fwrite(dump.buf, 1, dump.size, file) != dump.size || std::fclose(file) != 0) {
            return EXIT_FAILURE;
        }
        generator.reset();
    }
    return EXIT_SUCCESS;
}
