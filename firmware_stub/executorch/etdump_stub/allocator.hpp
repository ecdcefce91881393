// SPDX-License-Identifier: Apache-2.0
/* An ExecuTorch MemoryAllocator that logs what it allocates, because ExecuTorch reports no allocations to
 * event tracers. For the method's memory, the planned buffers and the temporary memory of kernels. Header
 * only, C++17, no heap, no exceptions. */
#ifndef ETDUMP_STUB_ALLOCATOR_HPP
#define ETDUMP_STUB_ALLOCATOR_HPP

#include <executorch/runtime/core/memory_allocator.h>
#include <executorch/runtime/core/span.h>

#include <utility>

#include "etd_tracer.h"

namespace etdump_stub {

using PlannedBuffers = executorch::runtime::Span<executorch::runtime::Span<uint8_t>>;

/* `Base` is the allocator to log: ExecuTorch's, or one derived from it. */
template <typename Base = executorch::runtime::MemoryAllocator> class LoggingAllocator final : public Base {
  public:
    /* `name` is the allocator's in the log, and must outlive it. The other arguments are those of `Base`. */
    template <typename... Arguments>
    explicit LoggingAllocator(const char *name, Arguments &&...arguments)
        : Base(std::forward<Arguments>(arguments)...), name_(name) {
    }

    /* Logs to `tracer` from now on; null logs nothing. The first call with a tracer declares the allocator,
     * so the tracer must be initialized. Construct the allocator again for another log.
     *
     * `planned` are the buffers of a HierarchicalAllocator, for the allocator of the method: they are logged
     * as the allocators planned_1, planned_2, ... at its next allocation, when ExecuTorch has begun its
     * block. The array must be valid until then. */
    void log_to(etd_tracer *tracer, PlannedBuffers planned = {}) {
        tracer_ = tracer;
        planned_ = planned;
        if (tracer != nullptr && !declared_) {
            declared_ = true;
            allocator_ = etd_track_allocator(tracer, name_);
        }
    }

    /* Does the same, and logs the planned buffers now, and as one piece what is allocated already: for a call
     * behind load_method, which allocates hundreds of pieces. */
    void log_used(etd_tracer *tracer, PlannedBuffers planned = {}) {
        log_to(tracer, planned);
        log_planned();
        logged_ = to_u32(Base::used_size());
        first_ = 0;
        if (tracer_ != nullptr && logged_ > 0) {
            etd_track_allocation(tracer_, allocator_, logged_, first_);
        }
    }

    void *allocate(size_t size, size_t alignment = Base::kDefaultAlignment) override {
        log_planned();
        void *piece = Base::allocate(size, alignment);
        if (piece == nullptr) {
            etd_track_allocation_failure(tracer_, allocator_, to_u32(size));
        } else if (tracer_ != nullptr && size > 0) {
            const uint32_t offset = offset_of(piece);
            etd_track_allocation(tracer_, allocator_, to_u32(size), offset);
            first_ = logged_ == 0 ? offset : first_;
            logged_ += to_u32(size);
        }
        return piece;
    }

    /* Frees all pieces at once, so one record does for them. */
    void reset() override {
        if (logged_ > 0) {
            etd_track_free(tracer_, allocator_, logged_, first_);
        }
        logged_ = 0;
        Base::reset();
    }

  private:
    static uint32_t to_u32(size_t size) {
        return size > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(size);
    }

    uint32_t offset_of(const void *piece) const {
        const auto start = reinterpret_cast<uintptr_t>(Base::base_address());
        const auto at = reinterpret_cast<uintptr_t>(piece);
        const bool inside = start != 0 && at >= start && at - start < Base::size();
        return inside ? static_cast<uint32_t>(at - start) : ETD_LOG_NO_OFFSET; /* of malloc, for example */
    }

    void log_planned() {
        for (size_t i = 0; tracer_ != nullptr && i < planned_.size(); i++) {
            constexpr size_t digits = 3; /* of the number of a buffer */
            char name[] = "planned_\0\0\0";
            char *end = name + sizeof name - 1 - digits;
            for (size_t scale = 100; scale > 0; scale /= 10) {
                if (i + 1 >= scale) {
                    *end++ = static_cast<char>('0' + (i + 1) / scale % 10);
                }
            }
            const uint32_t allocator = etd_track_allocator(tracer_, name);
            if (planned_[i].size() > 0) {
                etd_track_allocation(tracer_, allocator, to_u32(planned_[i].size()), 0);
            }
        }
        planned_ = {};
    }

    const char *name_;
    etd_tracer *tracer_ = nullptr;
    PlannedBuffers planned_;
    bool declared_ = false;
    uint32_t allocator_ = 0;
    uint32_t logged_ = 0; /* bytes since the last reset */
    uint32_t first_ = 0;  /* offset of the first of them */
};

} // namespace etdump_stub

#endif
