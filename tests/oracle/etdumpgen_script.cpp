// SPDX-License-Identifier: Apache-2.0
// Makes a dump with ExecuTorch's own ETDumpGen: `script <static bytes or 0> <file>`, told on standard input
// what to log, one call a line. Names without spaces; `-` stands for none.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <executorch/devtools/etdump/etdump_flatcc.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/platform/runtime.h>

namespace rt = executorch::runtime;
using executorch::etdump::ETDumpGen;

static et_timestamp_t now;

extern "C" et_timestamp_t et_pal_current_ticks() {
    return now;
}

static const char *text(const std::string &word) {
    return word == "-" ? nullptr : word.c_str();
}

static void follow(ETDumpGen &generator, const std::string &line) {
    std::istringstream words(line);
    std::string call, name, metadata;
    long long chain = -1, instruction = 0, id = -1, value = 0;
    unsigned long long start = 0, end = 0;
    words >> call;
    if (call == "block") {
        words >> name;
        generator.create_event_block(name.c_str());
    } else if (call == "profile") {
        words >> name >> chain >> instruction >> start >> end;
        now = start;
        const auto entry = generator.start_profiling(text(name), rt::ChainID(chain), uint32_t(instruction));
        now = end;
        generator.end_profiling(entry);
    } else if (call == "delegate") {
        words >> name >> id >> chain >> instruction >> start >> end >> metadata;
        generator.set_chain_debug_handle(rt::ChainID(chain), uint32_t(instruction));
        generator.log_profiling_delegate(text(name), rt::DelegateDebugIntId(id), start, end, text(metadata),
                                         metadata == "-" ? 0 : metadata.size());
        generator.set_chain_debug_handle(-1, 0);
    } else if (call == "value" || call == "output") {
        words >> chain >> instruction >> value;
        const auto type =
            call == "output" ? rt::LoggedEValueType::kProgramOutput : rt::LoggedEValueType::kIntermediateOutput;
        generator.set_event_tracer_debug_level(rt::EventTracerDebugLogLevel::kIntermediateOutputs);
        generator.set_chain_debug_handle(rt::ChainID(chain), uint32_t(instruction));
        (void)generator.log_evalue(rt::EValue(int64_t(value)), type);
        generator.set_chain_debug_handle(-1, 0);
    } else if (call == "double") {
        std::string number;
        words >> number;
        generator.set_event_tracer_debug_level(rt::EventTracerDebugLogLevel::kIntermediateOutputs);
        (void)generator.log_evalue(rt::EValue(std::strtod(number.c_str(), nullptr)),
                                   rt::LoggedEValueType::kIntermediateOutput);
    } else if (call == "allocator") {
        words >> name;
        generator.track_allocator(name.c_str());
    } else if (call == "allocation") {
        words >> id >> value;
        generator.track_allocation(rt::AllocatorID(id), size_t(value));
    } else if (call == "bundled") {
        words >> value;
        generator.set_bundled_input_index(int(value));
    } else {
        std::exit(EXIT_FAILURE);
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        return EXIT_FAILURE;
    }
    rt::runtime_init();
    std::vector<uint8_t> memory(size_t(std::strtoul(argv[1], nullptr, 10)));
    ETDumpGen generator({memory.empty() ? nullptr : memory.data(), memory.size()});
    for (std::string line; std::getline(std::cin, line);) {
        follow(generator, line);
    }
    const auto dump = generator.get_etdump_data();
    FILE *file = std::fopen(argv[2], "wb");
    const bool written = file != nullptr && std::fwrite(dump.buf, 1, dump.size, file) == dump.size;
    if (memory.empty()) {
        std::free(dump.buf);
    }
    return written && std::fclose(file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
