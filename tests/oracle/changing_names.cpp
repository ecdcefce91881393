// SPDX-License-Identifier: Apache-2.0
// Logs the same events through ExecuTorch's interface and through the C tracer, with names whose texts change
// where they are. Both logs must be equal. Built as benchmarks/tracers/costs_adapter.cpp is.
#include <cstring>

#include "costs.h"
#include "etdump_stub/event_tracer.hpp"

namespace {

constexpr uint32_t EVENTS = 8000, PLACES = 24, LONGEST = 21, STEP = LONGEST + 2;

uint32_t state = 2463534242u;

uint32_t random_below(uint32_t end) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % end;
}

uint32_t count_up(void *context) {
    return ++*static_cast<uint32_t *>(context);
}

alignas(4) uint8_t memory[2][40u << 10];
uint8_t images[2][1024];
uint32_t clocks[2];
etd_tracer ours, plain;
char texts[PLACES * STEP]; // at all alignments

// Texts of two letters, so that many are alike, or begin alike.
void change(char *text) {
    const auto length = static_cast<uint32_t>(std::strlen(text));
    switch (random_below(4)) {
    case 0:
        text[random_below(length + 1)] = '\0';
        break;
    case 1:
        for (uint32_t i = length, end = random_below(LONGEST + 1); i < end; i++) {
            text[i] = static_cast<char>('a' + random_below(2));
            text[i + 1] = '\0';
        }
        break;
    case 2:
        text[random_below(length + 1)] = length > 0 ? 'b' : '\0';
        text[length] = '\0';
        break;
    default:
        break;
    }
}

bool equal_logs() {
    const uint32_t size = etd_log_size(&ours);
    bool equal = size == etd_log_size(&plain);
    for (uint32_t at = 0; at < size && equal; at += sizeof images[0]) {
        const uint32_t count = etd_log_read(&ours, at, images[0], sizeof images[0]);
        equal = etd_log_read(&plain, at, images[1], sizeof images[1]) == count &&
                std::memcmp(images[0], images[1], count) == 0;
    }
    return equal;
}

/* Returns how often the logs differed. `changing`: names also in memory that is no constant. */
uint32_t log_all(const etdump_stub::Constants &constants, bool changing) {
    static const char *const literals[] = {"OPERATOR_CALL", "native_call_add.out", "native_call_addmm.out"};
    clocks[0] = clocks[1] = 0;
    etd_tracer_init(&ours, memory[0], sizeof memory[0], count_up, &clocks[0]);
    etd_tracer_init(&plain, memory[1], sizeof memory[1], count_up, &clocks[1]);
    etdump_stub::EventTracer adapter(ours, 32, constants);
    executorch::runtime::EventTracer *volatile interface = &adapter;
    interface->create_event_block("Execute");
    etd_create_event_block(&plain, "Execute");
    uint32_t different = 0;
    for (uint32_t i = 0; i < EVENTS; i++) {
        char *text = &texts[random_below(PLACES) * STEP];
        change(text);
        const char *name = random_below(5) == 0 || !changing ? literals[random_below(3)] : text;
        name = random_below(50) == 0 ? nullptr : name;
        const int32_t chain = static_cast<int32_t>(random_below(3)) - 1;
        interface->set_chain_debug_handle(chain, i);
        etd_set_chain_debug_handle(&plain, chain, i);
        interface->set_bundled_input_index(static_cast<int>(i / 2000));
        const auto entry = interface->start_profiling(name, -1, 0);
        const etd_event event = etd_start_profiling(&plain, name, -1, 0);
        interface->end_profiling(entry);
        etd_end_profiling(&plain, event);
        etd_set_bundled_input_index(&plain, static_cast<int32_t>(i / 2000));
        if (i % 512 == 511) {
            different += !equal_logs();
            if (i < EVENTS * 3 / 4) { // then both logs become full
                etd_log_recycle(&ours);
                etd_log_recycle(&plain);
            }
        }
    }
    return different;
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
    const etdump_stub::Constants both[] = {{constants_start, constants_end},
                                           etdump_stub::Constants::everywhere()};
    uint32_t different = 0, most = 0, dropped = 0;
    for (const auto &constants : both) {
        different += log_all(constants, &constants == &both[0]);
        most = ours.name_count > most ? ours.name_count : most;
        dropped += ours.dropped_events;
    }
    print_count("different", different);
    print_count("names", most);
    print_count("dropped", dropped);
}
