// SPDX-License-Identifier: Apache-2.0
/* An ExecuTorch EventTracer on our tracer. Pass one to Program::load_method to log all events of loading and
 * execution, and values according to the debug level. Header only, C++17, no heap, no exceptions. Events and
 * values that do not fit are counted, so the host can report the loss. A delegate's event is refused, and
 * counted as dropped, if it does not have exactly one of a name and an id, or if its time does not fit the
 * clock of the log. */
#ifndef ETDUMP_STUB_EVENT_TRACER_HPP
#define ETDUMP_STUB_EVENT_TRACER_HPP

#include <executorch/runtime/core/event_tracer.h>

#include <cstddef>
#include <cstring>

#include "etd_tracer.h"

/* For what every event runs: a call would cost as much as the work itself. */
#define ETDUMP_STUB_INLINE inline __attribute__((always_inline))

/* Names are compared by words where a CPU can load unaligned ones. Like functions of C libraries, this reads
 * up to 3 bytes behind the end of a text, but only in the aligned word of its last byte. */
#if defined(__ARM_FEATURE_UNALIGNED) && !defined(__SANITIZE_ADDRESS__)
#define ETDUMP_STUB_WORDS
#endif

namespace etdump_stub {

using executorch::aten::Tensor;
using executorch::runtime::AllocatorID;
using executorch::runtime::ArrayRef;
using executorch::runtime::ChainID;
using executorch::runtime::DebugHandle;
using executorch::runtime::DelegateDebugIdType;
using executorch::runtime::DelegateDebugIntId;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::EventTracerDebugLogLevel;
using executorch::runtime::EventTracerEntry;
using executorch::runtime::EventTracerFilterBase;
using executorch::runtime::EventTracerProfilingLevel;
using executorch::runtime::kUnsetDelegateDebugIntId;
using executorch::runtime::LoggedEValueType;
using executorch::runtime::Result;

/* The memory of string literals, such as .rodata in flash, which nothing writes. The default is none. */
struct Constants {
    const char *first = nullptr;
    const char *end = nullptr;

    /* All memory: for programs in which all names of events are string literals, as those of ExecuTorch's
     * runtime and generated kernels are. Names of a delegate's events are compared still. */
    static Constants everywhere() {
        return {nullptr, reinterpret_cast<const char *>(UINTPTR_MAX)};
    }
};

class EventTracer final : public executorch::runtime::EventTracer {
  public:
    /* `tracer` must be initialized and outlive this object. Its levels and its bundled input index are
     * copied; from then on those of this object apply.
     *
     * `clock_bits` is the width of ExecuTorch's ticks (et_pal_current_ticks), by which delegates log events
     * that have ended. Their low 32 bits must be the tracer's ticks. With 32, the default, an event with a
     * wider timestamp is refused, because it is of another clock. With more, only an event that lasted 2^32
     * ticks or longer is.
     *
     * ExecuTorch's tracers copy names, so any name may change after the call and is compared with the one
     * before. A name within `constants` cannot, and is known by its pointer, which takes half as long. */
    explicit EventTracer(etd_tracer &tracer, uint8_t clock_bits = LOG_CLOCK_BITS, Constants constants = {})
        : tracer_(tracer), clock_bits_(clock_bits), constants_(constants) {
        set_event_tracer_debug_level(static_cast<EventTracerDebugLogLevel>(tracer.debug_level));
        set_event_tracer_profiling_level(static_cast<EventTracerProfilingLevel>(tracer.profiling_level));
        set_bundled_input_index(tracer.bundled_input_index);
    }

    void create_event_block(const char *name) override {
        etd_create_event_block(&tracer_, name);
        take_bundled_input_index();
    }

    EventTracerEntry start_profiling(const char *name, ChainID chain = ETD_UNSET_CHAIN,
                                     DebugHandle handle = ETD_UNSET_HANDLE) override {
        take_chain_debug_handle();
        const etd_name known = known_name(name);
        const etd_event event = known == ETD_LOG_NO_NAME
                                    ? etd_start_profiling(&tracer_, name, chain, handle)
                                    : etd_start_profiling_interned(&tracer_, known, chain, handle);
        return to_entry(event, DelegateDebugIdType::kNone, 0);
    }

    void end_profiling(EventTracerEntry entry) override {
        etd_end_profiling(&tracer_, to_event(entry));
        take_bundled_input_index();
    }

    EventTracerEntry start_profiling_delegate(const char *name, DelegateDebugIntId id) override {
        if (!identifies(name, id)) {
            refuse_event();
            return {}; /* without a type of id, so its end is ignored */
        }
        take_chain_debug_handle();
        const etd_delegate_event started = etd_start_profiling_delegate(&tracer_, name, id);
        const auto type = name == nullptr ? DelegateDebugIdType::kInt : DelegateDebugIdType::kStr;
        return to_entry(started.event, type, started.id);
    }

    void end_profiling_delegate(EventTracerEntry entry, const void *metadata, size_t length) override {
        if (entry.delegate_event_id_type == DelegateDebugIdType::kNone) {
            return;
        }
        const etd_delegate_event started = {to_event(entry), static_cast<int32_t>(entry.start_time)};
        etd_end_profiling_delegate(&tracer_, started, metadata, to_u32(length));
    }

    /* Delegates use ExecuTorch's clock, which is clock domain 0. */
    void log_profiling_delegate(const char *name, DelegateDebugIntId id, et_timestamp_t start,
                                et_timestamp_t end, const void *metadata, size_t length) override {
        if (!identifies(name, id) || !fits_clock(start, end)) {
            refuse_event();
            return;
        }
        take_chain_debug_handle();
        etd_log_profiling_delegate(&tracer_, name, id, 0, static_cast<uint32_t>(start),
                                   static_cast<uint32_t>(end), metadata, to_u32(length));
    }

    AllocatorID track_allocator(const char *name) override {
        return etd_track_allocator(&tracer_, name);
    }

    void track_allocation(AllocatorID id, size_t size) override {
        etd_track_allocation(&tracer_, id, to_u32(size), ETD_LOG_NO_OFFSET);
    }

    /* Strings and lists of numbers are not logged; ETDump cannot represent them. */
    Result<bool> log_evalue(const EValue &value, LoggedEValueType type) override {
        take_debug_level();
        take_chain_debug_handle();
        const etd_value_role role =
            type == LoggedEValueType::kProgramOutput ? ETD_PROGRAM_OUTPUT : ETD_INTERMEDIATE_OUTPUT;
        if (value.isTensorList()) {
            const ArrayRef<Tensor> tensors = value.toTensorList();
            const etd_logged_value logged = describe(tensors);
            return etd_log_evalue(&tracer_, role, &logged);
        }
        etd_logged_value logged = {};
        return describe(value, &logged) && etd_log_evalue(&tracer_, role, &logged);
    }

    Result<bool> log_intermediate_output_delegate(const char *name, DelegateDebugIntId id,
                                                  const Tensor &output) override {
        return log_of_delegate(name, id, describe(output));
    }

    Result<bool> log_intermediate_output_delegate(const char *name, DelegateDebugIntId id,
                                                  const ArrayRef<Tensor> output) override {
        return log_of_delegate(name, id, describe(output));
    }

    Result<bool> log_intermediate_output_delegate(const char *name, DelegateDebugIntId id,
                                                  const int &output) override {
        return log_of_delegate(name, id, describe(static_cast<int64_t>(output)));
    }

    Result<bool> log_intermediate_output_delegate(const char *name, DelegateDebugIntId id,
                                                  const bool &output) override {
        return log_of_delegate(name, id, describe(output));
    }

    Result<bool> log_intermediate_output_delegate(const char *name, DelegateDebugIntId id,
                                                  const double &output) override {
        return log_of_delegate(name, id, describe(output));
    }

    /* Sends the contents of logged tensors to a sink, as ETDumpGen::set_data_sink does; null for the debug
     * buffer of the C tracer. Works with any class that has the write() of ExecuTorch's DataSinkBase. The
     * sink must outlive its use. */
    template <typename Sink> void set_data_sink(Sink *sink) {
        const etd_sink_fn write = [](void *context, const etd_logged_tensor *tensor) -> uint32_t {
            const Result<size_t> offset = static_cast<Sink *>(context)->write(tensor->data, tensor->nbytes);
            if (!offset.ok() || *offset >= ETD_LOG_NO_OFFSET - tensor->nbytes) {
                return ETD_LOG_NO_OFFSET;
            }
            return static_cast<uint32_t>(*offset);
        };
        etd_set_data_sink(&tracer_, sink != nullptr ? write : nullptr, sink);
    }

    /* ExecuTorch's filters select values to leave out. The C tracer's filter, which selects values to log,
     * applies as well. */
    void set_delegation_intermediate_output_filter(EventTracerFilterBase *filter) override {
        filter_ = filter;
    }

  private:
    static_assert(offsetof(EventTracerEntry, event_id) == 0 &&
                      offsetof(EventTracerEntry, start_time) >= sizeof(etd_event),
                  "the first fields of an entry hold an etd_event");
    static_assert(
        static_cast<int>(EventTracerDebugLogLevel::kIntermediateOutputs) == ETD_DEBUG_INTERMEDIATE_OUTPUTS &&
            static_cast<int>(EventTracerDebugLogLevel::kProgramOutputs) == ETD_DEBUG_PROGRAM_OUTPUTS &&
            static_cast<int>(EventTracerProfilingLevel::kProfileAllEvents) == ETD_PROFILE_ALL_EVENTS,
        "levels are numbered alike");

    static constexpr uint8_t LOG_CLOCK_BITS = 32;

    static uint32_t to_u32(size_t size) {
        return size > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(size);
    }

    bool is_constant(const char *name) const {
        const auto at = reinterpret_cast<uintptr_t>(name);
        return at >= reinterpret_cast<uintptr_t>(constants_.first) &&
               at < reinterpret_cast<uintptr_t>(constants_.end);
    }

    /* Returns the id of a name that the tracer has cached by its pointer (as etd_name_place does), if its
     * text cannot have changed or is still the same; else ETD_LOG_NO_NAME. */
    ETDUMP_STUB_INLINE etd_name known_name(const char *name) const {
        uint32_t at = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(name)) * ETD_NAME_HASH >> 16;
        uint32_t left = ETD_NAME_PLACES;
        const etd_recent_name *recent = &tracer_.recent[at % ETD_RECENT_NAMES];
        while (recent->text != name || name == nullptr) {
            if (recent->text == nullptr || name == nullptr || --left == 0) {
                return ETD_LOG_NO_NAME;
            }
            recent = &tracer_.recent[++at % ETD_RECENT_NAMES];
        }
        return is_constant(name) || is_unchanged(*recent) ? recent->name : etd_name{ETD_LOG_NO_NAME};
    }

    /* Ends at the first difference, because the text may be shorter now. */
    ETDUMP_STUB_INLINE bool is_unchanged(const etd_recent_name &recent) const {
        const uint8_t *kept = tracer_.buffer + (tracer_.capacity - recent.from_end);
        const auto *text = reinterpret_cast<const uint8_t *>(recent.text);
        const uint32_t length = *kept++;
        const uint8_t *const end = kept + length;
#ifdef ETDUMP_STUB_WORDS
        while (reinterpret_cast<uintptr_t>(text) % sizeof(uint32_t) != 0 && kept != end) {
            if (*kept++ != *text++) {
                return false;
            }
        }
        for (; end - kept >= 4; kept += 4, text += 4) {
            if (word_at(kept) != word_at(text)) {
                return false;
            }
        }
#else
        for (; end - kept >= 4; kept += 4, text += 4) {
            if (kept[0] != text[0] || kept[1] != text[1] || kept[2] != text[2] || kept[3] != text[3]) {
                return false;
            }
        }
#endif
        while (kept != end) {
            if (*kept++ != *text++) {
                return false;
            }
        }
        return *text == '\0' || length == ETD_LOG_MAX_NAME;
    }

#ifdef ETDUMP_STUB_WORDS
    static uint32_t word_at(const uint8_t *bytes) {
        uint32_t word;
        std::memcpy(&word, bytes, sizeof word);
        return word;
    }
#endif

    /* A delegate's map of debug handles is by name or by id, so one of them says what an event is. */
    static bool identifies(const char *name, DelegateDebugIntId id) {
        return (name == nullptr) != (id == kUnsetDelegateDebugIntId);
    }

    /* Returns whether the log's 32 bits hold the duration, and the times if they are of a 32-bit clock. Times
     * of a 32-bit clock may wrap between start and end. */
    bool fits_clock(et_timestamp_t start, et_timestamp_t end) const {
        return clock_bits_ > LOG_CLOCK_BITS ? end - start <= UINT32_MAX : (start | end) <= UINT32_MAX;
    }

    void refuse_event() {
        tracer_.dropped_events++;
    }

    /* The words of an etd_event. To copy all at once is two instructions or, on small CPUs, a call. */
    struct __attribute__((may_alias)) Event {
        uint32_t first, second, third, fourth;
        ETDUMP_STUB_INLINE void take(const Event &from) {
#ifdef __thumb2__
            *this = from;
#else
            first = from.first;
            second = from.second;
            third = from.third;
            fourth = from.fourth;
#endif
        }
    };

    /* Stores the C tracer's event in the first fields of the entry, and a delegate's integer id as its time.
     * The caller only keeps the entry. */
    static EventTracerEntry to_entry(const etd_event &event, DelegateDebugIdType type, int32_t delegate) {
        EventTracerEntry entry;
        reinterpret_cast<Event &>(entry).take(reinterpret_cast<const Event &>(event));
        entry.start_time = static_cast<et_timestamp_t>(delegate);
        entry.delegate_event_id_type = type;
        return entry;
    }

    static etd_event to_event(const EventTracerEntry &entry) {
        etd_event event;
        reinterpret_cast<Event &>(event).take(reinterpret_cast<const Event &>(entry));
        return event;
    }

    /* Their setters are not virtual, so they are copied whenever the C tracer needs them. */
    ETDUMP_STUB_INLINE void take_chain_debug_handle() {
        tracer_.chain = chain_id_;
        tracer_.handle = debug_handle_;
    }

    ETDUMP_STUB_INLINE void take_bundled_input_index() {
        if (tracer_.bundled_input_index != bundled_input_index_) {
            etd_set_bundled_input_index(&tracer_, bundled_input_index_);
        }
    }

    void take_debug_level() {
        etd_set_debug_level(&tracer_, static_cast<etd_debug_level>(event_tracer_debug_level()));
    }

    static etd_logged_tensor describe_tensor(const Tensor &tensor) {
        etd_logged_tensor logged = {};
        logged.data = tensor.const_data_ptr();
        logged.nbytes = to_u32(tensor.nbytes());
        logged.sizes = tensor.sizes().data();
        logged.strides = tensor.strides().data();
        logged.ndim = static_cast<uint8_t>(tensor.dim());
        logged.dtype = static_cast<uint8_t>(tensor.scalar_type());
        return logged;
    }

    static etd_logged_value describe(const Tensor &tensor) {
        etd_logged_value logged = {};
        logged.kind = ETD_LOG_VALUE_TENSOR;
        logged.as.tensor = describe_tensor(tensor);
        return logged;
    }

    /* Refers to the list, which must stay valid. */
    static etd_logged_value describe(const ArrayRef<Tensor> &tensors) {
        etd_logged_value logged = {};
        logged.kind = ETD_LOG_VALUE_TENSOR_LIST;
        logged.as.list.tensor_at = [](const void *context, uint32_t index, etd_logged_tensor *tensor) {
            *tensor = describe_tensor((*static_cast<const ArrayRef<Tensor> *>(context))[index]);
        };
        logged.as.list.context = &tensors;
        logged.as.list.count = to_u32(tensors.size());
        return logged;
    }

    static etd_logged_value describe(int64_t value) {
        etd_logged_value logged = {};
        logged.kind = ETD_LOG_VALUE_INT;
        logged.as.integer = value;
        return logged;
    }

    static etd_logged_value describe(bool value) {
        etd_logged_value logged = {};
        logged.kind = ETD_LOG_VALUE_BOOL;
        logged.as.boolean = value;
        return logged;
    }

    static etd_logged_value describe(double value) {
        etd_logged_value logged = {};
        logged.kind = ETD_LOG_VALUE_DOUBLE;
        logged.as.number = value;
        return logged;
    }

    /* Returns false if the value cannot be logged. Lists need additional storage (log_evalue). */
    static bool describe(const EValue &value, etd_logged_value *logged) {
        if (value.isTensor()) {
            *logged = describe(value.toTensor());
        } else if (value.isInt()) {
            *logged = describe(value.toInt());
        } else if (value.isBool()) {
            *logged = describe(value.toBool());
        } else if (value.isDouble()) {
            *logged = describe(value.toDouble());
        } else {
            return value.isNone();
        }
        return true;
    }

    Result<bool> log_of_delegate(const char *name, DelegateDebugIntId id, const etd_logged_value &value) {
        if (!identifies(name, id)) {
            return Error::InvalidArgument;
        }
        take_chain_debug_handle();
        if (filter_ != nullptr) {
            const Result<bool> matches = filter_->filter(name, id);
            if (!matches.ok()) {
                return matches.error();
            }
            if (*matches) {
                tracer_.filtered_events++;
                return false;
            }
        }
        /* As with ETDumpGen, the debug level does not apply to values that a delegate logs. */
        etd_set_debug_level(&tracer_, ETD_DEBUG_INTERMEDIATE_OUTPUTS);
        const bool logged = etd_log_intermediate_output_delegate(&tracer_, name, id, &value);
        take_debug_level();
        return logged;
    }

    etd_tracer &tracer_;
    uint8_t clock_bits_;
    Constants constants_;
    EventTracerFilterBase *filter_ = nullptr;
};

} // namespace etdump_stub

#endif
