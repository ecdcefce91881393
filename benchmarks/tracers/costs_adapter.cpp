// SPDX-License-Identifier: Apache-2.0
/* Costs of events through ExecuTorch's interface, which our adapter implements (benchmarks/device_costs.py):
 * the names of a network in turn, as ExecuTorch's runtime logs them. */
#include "costs.h"
#include "etdump_stub/event_tracer.hpp"
#include "scenarios.h"

namespace {

constexpr uint32_t EVENTS = 256;
constexpr uint32_t BYTES = 16u << 10;

alignas(4) uint8_t buffer[BYTES];
etd_tracer tracer;

template <typename Log> uint32_t count(Log log) {
    const uint32_t start = count_now();
    for (uint32_t i = 0; i < EVENTS; i++) {
        log(i);
    }
    return (count_now() - start) & 0xFFFFFFu;
}

template <typename Log> void measure(const char *scenario, Log log) {
    etd_create_event_block(&tracer, "Execute");
    (void)count(log); /* interns the names */
    etd_log_recycle(&tracer);
    const etd_ticks_fn volatile clock = cheap_clock;
    const uint32_t around = count([&](uint32_t) {
        (void)clock(nullptr);
        (void)clock(nullptr);
    });
    const uint32_t all = count(log);
    print_count(scenario, tracer.dropped_events > 0 ? 0 : (all - around) / EVENTS);
}

void measure_network(const char *scenario, executorch::runtime::EventTracer *volatile events) {
    measure(scenario, [&](uint32_t i) {
        executorch::runtime::EventTracer *const tracer = events;
        const auto entry = tracer->start_profiling(network[i % NAMES], 0, static_cast<uint32_t>(i));
        tracer->end_profiling(entry);
    });
}

} // namespace

extern "C" const char constants_start[], constants_end[]; /* costs.ld */
extern "C" void __aeabi_atexit() {
}
extern "C" void *__dso_handle;
void *__dso_handle;
void operator delete(void *, size_t) noexcept {
}
void operator delete(void *) noexcept {
}

extern "C" void measure_costs() {
    etd_tracer_init(&tracer, buffer, sizeof buffer, cheap_clock, nullptr);
    etdump_stub::EventTracer any(tracer);
    measure_network("any", &any);
#ifdef ETD_SCOPE /* later than the class's argument for constants */
    etd_tracer_init(&tracer, buffer, sizeof buffer, cheap_clock, nullptr);
    etdump_stub::EventTracer fixed(tracer, 32, {constants_start, constants_end});
    measure_network("fixed", &fixed);
#endif
}
