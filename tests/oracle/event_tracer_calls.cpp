// Calls everything that ExecuTorch may call of an EventTracer, and writes the log to standard output.
#include <cstdio>

#include "etdump_stub/event_tracer.hpp"

namespace rt = executorch::runtime;

static uint32_t now;

static uint32_t ticks() {
    return now += 10;
}

int main() {
    static uint8_t memory[4096];
    static uint8_t image[sizeof memory + 64];
    et_tracer tracer;
    et_tracer_init(&tracer, memory, sizeof memory, ticks);
    etdump_stub::EventTracer adapter(tracer);
    rt::EventTracer &events = adapter;

    events.set_bundled_input_index(3);
    events.create_event_block("Execute");
    events.set_chain_debug_handle(2, 70000);
    const rt::EventTracerEntry outer = events.start_profiling("stored");
    events.end_profiling_delegate(events.start_profiling_delegate(nullptr, -7), "meta", 4);
    // The handle changes while the event is open: the event keeps what it started with.
    const rt::EventTracerEntry named = events.start_profiling_delegate("layer", -1);
    events.set_chain_debug_handle(0, 1);
    events.end_profiling_delegate(named);
    events.log_profiling_delegate(nullptr, 9, (1ull << 32) + 100, (1ull << 32) + 200, "\xff", 1);
    events.end_profiling(outer);
    events.end_profiling(events.start_profiling("given", 1, 5));
    events.track_allocation(events.track_allocator("heap"), 640);

    events.set_delegation_intermediate_output_filter(nullptr);
    const bool logged =
        events.log_evalue(rt::EValue(int64_t(1)), rt::LoggedEValueType::kProgramOutput).get() ||
        events.log_intermediate_output_delegate("layer", -1, 1.0).get() ||
        events.log_intermediate_output_delegate(nullptr, 9, true).get() ||
        events.log_intermediate_output_delegate(nullptr, 9, 4).get();
    if (logged || adapter.dropped_values() != 4) {
        return 1;
    }
    const uint32_t size = et_log_read(&tracer, 0, image, et_log_size(&tracer));
    return std::fwrite(image, 1, size, stdout) == size ? 0 : 1;
}
