/* ExecuTorch's EventTracer over our tracer: give one to Program::load_method and every event of load and
 * execution goes to the compact log. Header only, C++17, no heap, no exceptions. What the C tracer cannot
 * record is counted as dropped in the log, so the host sees that something is missing. */
#ifndef ETDUMP_STUB_EVENT_TRACER_HPP
#define ETDUMP_STUB_EVENT_TRACER_HPP

#include <executorch/runtime/core/event_tracer.h>

#include <cstring>

extern "C" {
#include "et_tracer.h"
}

namespace etdump_stub {

using executorch::aten::Tensor;
using executorch::runtime::AllocatorID;
using executorch::runtime::ArrayRef;
using executorch::runtime::ChainID;
using executorch::runtime::DebugHandle;
using executorch::runtime::DelegateDebugIdType;
using executorch::runtime::DelegateDebugIntId;
using executorch::runtime::EValue;
using executorch::runtime::EventTracerEntry;
using executorch::runtime::EventTracerFilterBase;
using executorch::runtime::LoggedEValueType;
using executorch::runtime::Result;

class EventTracer final : public executorch::runtime::EventTracer {
  public:
    /* The tracer must have been initialised and outlive this object. */
    explicit EventTracer(et_tracer &tracer) : tracer_(tracer) {
    }

    void create_event_block(const char *name) override {
        et_create_event_block(&tracer_, name);
        take_bundled_input_index();
    }

    EventTracerEntry start_profiling(const char *name, ChainID chain = ET_UNSET_CHAIN,
                                     DebugHandle handle = ET_UNSET_HANDLE) override {
        take_chain_debug_handle();
        return to_entry(et_start_profiling(&tracer_, name, chain, handle), DelegateDebugIdType::kNone, 0);
    }

    void end_profiling(EventTracerEntry entry) override {
        et_end_profiling(&tracer_, to_event(entry));
        take_bundled_input_index();
    }

    EventTracerEntry start_profiling_delegate(const char *name, DelegateDebugIntId id) override {
        take_chain_debug_handle();
        const et_delegate_event started = et_start_profiling_delegate(&tracer_, name, id);
        const auto type = name == nullptr ? DelegateDebugIdType::kInt : DelegateDebugIdType::kStr;
        return to_entry(started.event, type, started.id);
    }

    void end_profiling_delegate(EventTracerEntry entry, const void *metadata, size_t length) override {
        const et_delegate_event started = {to_event(entry), static_cast<int32_t>(entry.debug_handle)};
        et_end_profiling_delegate(&tracer_, started, metadata, to_u32(length));
    }

    /* Delegates give their times on ExecuTorch's clock, which is clock domain 0. */
    void log_profiling_delegate(const char *name, DelegateDebugIntId id, et_timestamp_t start,
                                et_timestamp_t end, const void *metadata, size_t length) override {
        take_chain_debug_handle();
        et_log_profiling_delegate(&tracer_, name, id, 0, static_cast<uint32_t>(start),
                                  static_cast<uint32_t>(end), metadata, to_u32(length));
    }

    AllocatorID track_allocator(const char *name) override {
        return et_track_allocator(&tracer_, name);
    }

    void track_allocation(AllocatorID id, size_t size) override {
        et_track_allocation(&tracer_, id, to_u32(size), ET_LOG_NO_OFFSET);
    }

    Result<bool> log_evalue(const EValue &, LoggedEValueType) override {
        return drop_value();
    }

    Result<bool> log_intermediate_output_delegate(const char *, DelegateDebugIntId, const Tensor &) override {
        return drop_value();
    }

    Result<bool> log_intermediate_output_delegate(const char *, DelegateDebugIntId,
                                                  const ArrayRef<Tensor>) override {
        return drop_value();
    }

    Result<bool> log_intermediate_output_delegate(const char *, DelegateDebugIntId, const int &) override {
        return drop_value();
    }

    Result<bool> log_intermediate_output_delegate(const char *, DelegateDebugIntId, const bool &) override {
        return drop_value();
    }

    Result<bool> log_intermediate_output_delegate(const char *, DelegateDebugIntId, const double &) override {
        return drop_value();
    }

    /* No value passes, so there is nothing to filter. */
    void set_delegation_intermediate_output_filter(EventTracerFilterBase *) override {
    }

    /* Values that ExecuTorch wanted logged; the C tracer has no record for them. */
    uint32_t dropped_values() const {
        return dropped_values_;
    }

  private:
    static_assert(sizeof(et_event) > sizeof(int64_t) &&
                      sizeof(et_event) <= sizeof(int64_t) + sizeof(et_timestamp_t),
                  "an EventTracerEntry has no room for an et_event");

    static uint32_t to_u32(size_t size) {
        return size > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(size);
    }

    /* The entry is the caller's to keep and ours to read: the C tracer's event travels in the fields for an
     * id and a time, whatever it consists of, and a delegate's integer in the debug handle. */
    static EventTracerEntry to_entry(const et_event &event, DelegateDebugIdType type, int32_t delegate) {
        EventTracerEntry entry = {};
        std::memcpy(&entry.event_id, &event, sizeof entry.event_id);
        std::memcpy(&entry.start_time, bytes_of(event) + sizeof entry.event_id,
                    sizeof event - sizeof entry.event_id);
        entry.chain_id = event.chain;
        entry.debug_handle =
            type == DelegateDebugIdType::kNone ? event.handle : static_cast<DebugHandle>(delegate);
        entry.delegate_event_id_type = type;
        return entry;
    }

    static et_event to_event(const EventTracerEntry &entry) {
        et_event event;
        unsigned char bytes[sizeof event];
        std::memcpy(bytes, &entry.event_id, sizeof entry.event_id);
        std::memcpy(bytes + sizeof entry.event_id, &entry.start_time, sizeof event - sizeof entry.event_id);
        std::memcpy(&event, bytes, sizeof event);
        return event;
    }

    static const unsigned char *bytes_of(const et_event &event) {
        return reinterpret_cast<const unsigned char *>(&event);
    }

    /* Their setters are not virtual, so these are taken over whenever the C tracer needs them. */
    void take_chain_debug_handle() {
        et_set_chain_debug_handle(&tracer_, chain_id_, debug_handle_);
    }

    void take_bundled_input_index() {
        et_set_bundled_input_index(&tracer_, bundled_input_index_);
    }

    bool drop_value() {
        dropped_values_++;
        tracer_.dropped_events++;
        return false;
    }

    et_tracer &tracer_;
    uint32_t dropped_values_ = 0;
};

} // namespace etdump_stub

#endif
