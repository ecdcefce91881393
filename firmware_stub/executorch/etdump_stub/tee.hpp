// SPDX-License-Identifier: Apache-2.0
/* An ExecuTorch EventTracer that passes everything to two others, such as ours and ETDumpGen, so that one
 * execution gives the files of both. Events of the first do not contain what the second takes for them;
 * enclosing events do. Header only, C++17, no heap, no exceptions. */
#ifndef ETDUMP_STUB_TEE_HPP
#define ETDUMP_STUB_TEE_HPP

#include <executorch/runtime/core/event_tracer.h>

namespace etdump_stub {

/* Up to `Open` events can be open at once, and `Allocators` be declared. What is beyond is passed to neither
 * tracer, and counted. */
template <unsigned Open = 8, unsigned Allocators = 16>
class Tee final : public executorch::runtime::EventTracer {
    using Tracer = executorch::runtime::EventTracer;
    using Entry = executorch::runtime::EventTracerEntry;
    using Id = executorch::runtime::DelegateDebugIntId;
    using Tensor = executorch::aten::Tensor;
    using Logged = executorch::runtime::Result<bool>;
    template <typename T> using ArrayRef = executorch::runtime::ArrayRef<T>;

  public:
    /* Both tracers must outlive this object, and nothing else may use them meanwhile. Its levels, chain,
     * debug handle and bundled input index apply to both; it begins with the levels and the index of
     * `first`. */
    Tee(Tracer &first, Tracer &second) : first_(first), second_(second) {
        set_event_tracer_debug_level(first.event_tracer_debug_level());
        set_event_tracer_profiling_level(first.event_tracer_profiling_level());
        set_bundled_input_index(first.bundled_input_index());
    }

    /* Returns the number of events and allocations that were passed to neither tracer. */
    uint32_t dropped() const {
        return dropped_;
    }

    void create_event_block(const char *name) override {
        pass_state();
        first_.create_event_block(name);
        second_.create_event_block(name);
    }

    Entry start_profiling(const char *name, executorch::runtime::ChainID chain,
                          executorch::runtime::DebugHandle handle) override {
        return start([&](Tracer &tracer) { return tracer.start_profiling(name, chain, handle); });
    }

    void end_profiling(Entry entry) override {
        if (Started *const started = take(entry)) {
            first_.end_profiling(started->first);
            second_.end_profiling(started->second);
        }
    }

    Entry start_profiling_delegate(const char *name, Id id) override {
        return start([&](Tracer &tracer) { return tracer.start_profiling_delegate(name, id); });
    }

    void end_profiling_delegate(Entry entry, const void *metadata, size_t length) override {
        if (Started *const started = take(entry)) {
            first_.end_profiling_delegate(started->first, metadata, length);
            second_.end_profiling_delegate(started->second, metadata, length);
        }
    }

    void log_profiling_delegate(const char *name, Id id, et_timestamp_t start, et_timestamp_t end,
                                const void *metadata, size_t length) override {
        pass_state();
        first_.log_profiling_delegate(name, id, start, end, metadata, length);
        second_.log_profiling_delegate(name, id, start, end, metadata, length);
    }

    /* Returns the number of the pair of ids that the tracers give, from 1 on, or 0 if there is no room. */
    executorch::runtime::AllocatorID track_allocator(const char *name) override {
        if (allocators_ == Allocators) {
            dropped_++;
            return 0;
        }
        ids_[allocators_][0] = first_.track_allocator(name);
        ids_[allocators_][1] = second_.track_allocator(name);
        return ++allocators_;
    }

    void track_allocation(executorch::runtime::AllocatorID id, size_t size) override {
        if (id == 0 || id > allocators_) {
            dropped_++;
            return;
        }
        first_.track_allocation(ids_[id - 1][0], size);
        second_.track_allocation(ids_[id - 1][1], size);
    }

    /* These return the error of the first tracer that has one, or whether one of them logged the value. */

    Logged log_evalue(const executorch::runtime::EValue &value,
                      executorch::runtime::LoggedEValueType type) override {
        return log([&](Tracer &tracer) { return tracer.log_evalue(value, type); });
    }

    Logged log_intermediate_output_delegate(const char *name, Id id, const Tensor &output) override {
        return log_of_delegate(name, id, output);
    }

    Logged log_intermediate_output_delegate(const char *name, Id id, const ArrayRef<Tensor> output) override {
        return log_of_delegate(name, id, output);
    }

    Logged log_intermediate_output_delegate(const char *name, Id id, const int &output) override {
        return log_of_delegate(name, id, output);
    }

    Logged log_intermediate_output_delegate(const char *name, Id id, const bool &output) override {
        return log_of_delegate(name, id, output);
    }

    Logged log_intermediate_output_delegate(const char *name, Id id, const double &output) override {
        return log_of_delegate(name, id, output);
    }

    void
    set_delegation_intermediate_output_filter(executorch::runtime::EventTracerFilterBase *filter) override {
        first_.set_delegation_intermediate_output_filter(filter);
        second_.set_delegation_intermediate_output_filter(filter);
    }

  private:
    static constexpr int64_t NOWHERE = -1;

    struct Started {
        Entry first;
        Entry second;
        bool open;
    };

    /* The setters of an EventTracer are not virtual, so what they set is passed on whenever it may be read.
     */
    void pass_state() {
        for (Tracer *tracer : {&first_, &second_}) {
            tracer->set_chain_debug_handle(chain_id_, debug_handle_);
            tracer->set_bundled_input_index(bundled_input_index_);
            tracer->set_event_tracer_debug_level(event_tracer_debug_level_);
            tracer->set_event_tracer_profiling_level(event_tracer_profiling_level_);
        }
    }

    template <typename Start> Entry start(Start start) {
        pass_state();
        Entry entry = {};
        entry.event_id = NOWHERE;
        for (unsigned place = 0; place < Open; place++) {
            if (!started_[place].open) {
                entry.event_id = place;
                started_[place].second = start(second_);
                started_[place].first = start(first_);
                started_[place].open = true;
                return entry;
            }
        }
        dropped_++;
        return entry;
    }

    Started *take(const Entry &entry) {
        pass_state();
        if (entry.event_id < 0 || entry.event_id >= int64_t{Open} || !started_[entry.event_id].open) {
            return nullptr;
        }
        started_[entry.event_id].open = false;
        return &started_[entry.event_id];
    }

    template <typename Log> Logged log(Log log) {
        pass_state();
        const Logged first = log(first_);
        const Logged second = log(second_);
        if (!first.ok() || !second.ok()) {
            return first.ok() ? second.error() : first.error();
        }
        return *first || *second;
    }

    template <typename Output> Logged log_of_delegate(const char *name, Id id, const Output &output) {
        return log([&](Tracer &tracer) { return tracer.log_intermediate_output_delegate(name, id, output); });
    }

    Tracer &first_;
    Tracer &second_;
    Started started_[Open] = {};
    executorch::runtime::AllocatorID ids_[Allocators][2] = {};
    executorch::runtime::AllocatorID allocators_ = 0;
    uint32_t dropped_ = 0;
};

} // namespace etdump_stub

#endif
