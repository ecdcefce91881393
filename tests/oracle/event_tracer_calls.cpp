// SPDX-License-Identifier: Apache-2.0
// Calls everything that ExecuTorch may call of an EventTracer, and writes log and debug buffer to standard
// output.
#include <cstdio>
#include <cstring>

#include <executorch/devtools/etdump/data_sinks/data_sink_base.h>
#include <executorch/devtools/etdump/etdump_flatcc.h>

#include "etdump_stub/event_tracer.hpp"

namespace rt = executorch::runtime;

static uint32_t now;

static uint32_t ticks(void *) {
    return now += 10;
}

/* Leaves out one name and one number. */
class Filter final : public rt::EventTracerFilterBase {
  public:
    rt::Result<bool> filter(const char *name, rt::DelegateDebugIntId id) override {
        return name != nullptr ? std::strcmp(name, "out") == 0 : id == 5;
    }
};

/* Holds one tensor, at an offset of its own choice. */
class Sink final : public executorch::etdump::DataSinkBase {
  public:
    rt::Result<size_t> write(const void *bytes, size_t size) override {
        if (used_ != 0 || size > sizeof stored) {
            return rt::Error::OutOfResources;
        }
        std::memcpy(stored, bytes, size);
        used_ = size;
        return OFFSET;
    }
    size_t get_used_bytes() const override {
        return used_;
    }
    static constexpr size_t OFFSET = 160;
    uint8_t stored[12];

  private:
    size_t used_ = 0;
};

/* The second tensor does not fit. Writes the log to standard error. */
static bool fill_sink(const executorch::aten::Tensor &tensor) {
    static uint8_t memory[256], image[sizeof memory + 64];
    etd_tracer tracer;
    etd_tracer_init(&tracer, memory, sizeof memory, ticks, nullptr);
    etdump_stub::EventTracer events(tracer);
    Sink sink;
    events.set_data_sink(&sink);
    events.create_event_block("Execute");
    const bool logged = events.log_intermediate_output_delegate("sunk", -1, tensor).get() &&
                        tracer.dropped_values == 0 &&
                        events.log_intermediate_output_delegate("lost", -1, tensor).get();
    const uint32_t size = etd_log_read(&tracer, 0, image, etd_log_size(&tracer));
    return std::fwrite(image, 1, size, stderr) == size && logged && tracer.dropped_values == 1 &&
           etd_debug_size(&tracer) == Sink::OFFSET + tensor.nbytes() &&
           std::memcmp(sink.stored, tensor.const_data_ptr(), tensor.nbytes()) == 0;
}

/* Without a debug level; a delegate's value has either a name or an id. */
static bool takes_values_of_delegates(rt::EventTracer &events) {
    const auto refused = rt::Error::InvalidArgument;
    return events.log_intermediate_output_delegate("early", -1, 2.5).get() &&
           events.log_intermediate_output_delegate("early", 3, 2.5).error() == refused &&
           events.log_intermediate_output_delegate(nullptr, -1, 2.5).error() == refused;
}

static bool etdumpgen_takes_values_of_delegates() {
    static uint8_t buffer[64];
    executorch::etdump::ETDumpGen theirs;
    theirs.create_event_block("Execute");
    return theirs.set_debug_buffer({buffer, sizeof buffer}).ok() && takes_values_of_delegates(theirs);
}

static bool log_values(rt::EventTracer &events) {
    using executorch::aten::Tensor;
    using executorch::aten::TensorImpl;
    const auto output = rt::LoggedEValueType::kProgramOutput;
    const auto intermediate = rt::LoggedEValueType::kIntermediateOutput;
    int32_t sizes[] = {2, 3};
    int32_t strides[] = {1, 2};
    uint8_t order[] = {1, 0};
    uint16_t elements[] = {1, 2, 3, 4, 5, 6};
    TensorImpl impl(executorch::aten::ScalarType::Half, 2, sizes, elements, order, strides);
    const Tensor tensor(&impl);
    const Tensor pair[] = {tensor, tensor};
    rt::EValue values[] = {rt::EValue(tensor), rt::EValue(tensor)};
    rt::EValue *places[] = {&values[0], &values[1]};
    Tensor unwrapped[] = {tensor, tensor};
    rt::BoxedEvalueList<Tensor> list(places, unwrapped, 2);
    rt::ArrayRef<char> text("text", 4);
    Filter filter;

    bool right = etdumpgen_takes_values_of_delegates() && takes_values_of_delegates(events);
    right = right && !events.log_evalue(rt::EValue(true), intermediate).get(); /* no level yet */
    events.set_event_tracer_debug_level(rt::EventTracerDebugLogLevel::kProgramOutputs);
    right = right && !events.log_evalue(rt::EValue(true), intermediate).get();
    right = right && events.log_evalue(rt::EValue(int64_t(1) << 40), output).get();
    events.set_event_tracer_debug_level(rt::EventTracerDebugLogLevel::kIntermediateOutputs);
    right = right && events.log_evalue(rt::EValue(tensor), intermediate).get();
    right = right && events.log_evalue(rt::EValue(&list), output).get();
    right = right && events.log_evalue(rt::EValue(), intermediate).get();
    right = right && !events.log_evalue(rt::EValue(&text), intermediate).get();
    events.set_delegation_intermediate_output_filter(&filter);
    right = right && events.log_intermediate_output_delegate("layer", -1, 1.5).get();
    right = right && !events.log_intermediate_output_delegate("out", -1, 1.5).get();
    right = right && events.log_intermediate_output_delegate(nullptr, 9, true).get();
    right = right && !events.log_intermediate_output_delegate(nullptr, 5, true).get();
    events.set_delegation_intermediate_output_filter(nullptr);
    right = right && events.log_intermediate_output_delegate(nullptr, 5, 4).get();
    right = right && events.log_intermediate_output_delegate("layer", -1, tensor).get();
    const rt::ArrayRef<Tensor> both(pair, 2);
    right = right && events.log_intermediate_output_delegate("layer", -1, both).get();
    return right && fill_sink(tensor);
}

/* Each of these is counted as a dropped event. */
static void log_refused_events(rt::EventTracer &events, uint64_t wide) {
    events.end_profiling_delegate(events.start_profiling_delegate("layer", 7));
    events.end_profiling_delegate(events.start_profiling_delegate(nullptr, -1));
    events.log_profiling_delegate("layer", 7, 100, 200);
    events.log_profiling_delegate("layer", -1, 100, wide);
}

int main() {
    static uint8_t memory[4096];
    static uint8_t image[sizeof memory + 64];
    etd_tracer tracer;
    etd_tracer_init(&tracer, memory, sizeof memory, ticks, nullptr);
    static uint8_t debug[72]; // room for four tensors of twelve bytes each, aligned
    etd_set_debug_buffer(&tracer, debug, sizeof debug);
    etdump_stub::EventTracer adapter(tracer, 64);
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
    log_refused_events(events, (1ull << 32) + 100);
    etdump_stub::EventTracer narrow(tracer);
    narrow.set_chain_debug_handle(0, 1);
    narrow.log_profiling_delegate(nullptr, 8, 0xfffffff0, 0x10, nullptr, 0);
    log_refused_events(narrow, 1ull << 32);
    events.end_profiling(outer);
    events.end_profiling(events.start_profiling("given", 1, 5));
    events.track_allocation(events.track_allocator("heap"), 640);

    if (!log_values(events)) {
        return 1;
    }
    const uint32_t size = etd_log_read(&tracer, 0, image, etd_log_size(&tracer));
    const uint32_t used = etd_debug_size(&tracer);
    const bool written =
        std::fwrite(image, 1, size, stdout) == size && std::fwrite(debug, 1, used, stdout) == used;
    return written ? 0 : 1;
}
