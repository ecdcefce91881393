// SPDX-License-Identifier: Apache-2.0
// Makes a dump with ExecuTorch's own ETDumpGen: `script <static bytes or 0> <file> [<log>]`, told on standard
// input what to log, one call a line. Names without spaces; `-` stands for none. With a third argument, a tee
// passes the calls to our tracer, too, which makes that file.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <executorch/devtools/etdump/etdump_flatcc.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/platform/runtime.h>

#include "etdump_stub/event_tracer.hpp"
#include "etdump_stub/tee.hpp"

namespace rt = executorch::runtime;
using executorch::etdump::ETDumpGen;

static et_timestamp_t now;
static std::vector<rt::EventTracerEntry> open_events;

static uint32_t ticks(void *) {
    return static_cast<uint32_t>(now);
}

extern "C" et_timestamp_t et_pal_current_ticks() {
    return now;
}

static const char *text(const std::string &word) {
    return word == "-" ? nullptr : word.c_str();
}

static void follow(rt::EventTracer &generator, const std::string &line) {
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
    } else if (call == "start") {
        words >> name >> chain >> instruction >> now;
        open_events.push_back(
            generator.start_profiling(text(name), rt::ChainID(chain), uint32_t(instruction)));
    } else if (call == "start_delegate") {
        words >> name >> id >> now;
        open_events.push_back(generator.start_profiling_delegate(text(name), rt::DelegateDebugIntId(id)));
    } else if (call == "end" || call == "end_delegate") {
        words >> now;
        const rt::EventTracerEntry last = open_events.back();
        open_events.pop_back();
        call == "end" ? generator.end_profiling(last) : generator.end_profiling_delegate(last, "meta", 4);
    } else if (call == "delegate") {
        words >> name >> id >> chain >> instruction >> start >> end >> metadata;
        generator.set_chain_debug_handle(rt::ChainID(chain), uint32_t(instruction));
        generator.log_profiling_delegate(text(name), rt::DelegateDebugIntId(id), start, end, text(metadata),
                                         metadata == "-" ? 0 : metadata.size());
        generator.set_chain_debug_handle(-1, 0);
    } else if (call == "value" || call == "output") {
        words >> chain >> instruction >> value;
        const auto type = call == "output" ? rt::LoggedEValueType::kProgramOutput
                                           : rt::LoggedEValueType::kIntermediateOutput;
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

static bool write(const char *path, const void *bytes, size_t size) {
    FILE *file = std::fopen(path, "wb");
    const bool written = file != nullptr && std::fwrite(bytes, 1, size, file) == size;
    return written && std::fclose(file) == 0;
}

static bool write_log(const char *path, const etd_tracer &tracer) {
    std::vector<uint8_t> image(etd_log_size(&tracer));
    return write(path, image.data(), etd_log_read(&tracer, 0, image.data(), uint32_t(image.size())));
}

int main(int argc, char **argv) {
    if (argc != 3 && argc != 4) {
        return EXIT_FAILURE;
    }
    rt::runtime_init();
    std::vector<uint8_t> memory(size_t(std::strtoul(argv[1], nullptr, 10))), log(1 << 16);
    ETDumpGen generator({memory.empty() ? nullptr : memory.data(), memory.size()});
    etd_tracer tracer;
    etd_tracer_init(&tracer, log.data(), uint32_t(log.size()), ticks, nullptr);
    etdump_stub::EventTracer ours(tracer);
    etdump_stub::Tee<3, 2> tee(ours, generator);
    for (std::string line; std::getline(std::cin, line);) {
        follow(argc == 4 ? static_cast<rt::EventTracer &>(tee) : generator, line);
    }
    if (tee.dropped() > 0) {
        std::printf("dropped %u\n", tee.dropped());
    }
    const auto dump = generator.get_etdump_data();
    const bool written = write(argv[2], dump.buf, dump.size) && (argc == 3 || write_log(argv[3], tracer));
    if (memory.empty()) {
        std::free(dump.buf);
    }
    return written ? EXIT_SUCCESS : EXIT_FAILURE;
}
