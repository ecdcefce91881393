// SPDX-License-Identifier: Apache-2.0
/* A runtime with the interface of ExecuTorch's, as far as executorch/runtime.cpp uses it. It accepts programs
 * of the right format, but always executes the network of standin.py: `forward` adds 1 to four floats with
 * aten::add.out. It registers, allocates, traces, logs and fails in the order that ExecuTorch does. */
#include <executorch/runtime/core/event_tracer_hooks.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/kernel/kernel_includes.h>
#include <executorch/runtime/platform/runtime.h>

#include <cstdio>
#include <cstring>
#include <new>

namespace executorch::runtime {

using executorch::aten::ArrayRef;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;

namespace standin {

/* These have external linkage, so -fPIC reaches them through the global offset table. */

constexpr size_t MOST_KERNELS = 8;

/* Zero before any constructor runs, so libraries may register in any order. */
alignas(Kernel) unsigned char registry[MOST_KERNELS * sizeof(Kernel)];
size_t registered;

PalImpl platform;

/* ExecuTorch's own state is partly constructed before main, too. */
struct Constructed {
    Constructed() : yes(true) {
    }
    volatile bool yes;
} constructed;

} // namespace standin

using namespace standin;

namespace {

Kernel *kernels() {
    return reinterpret_cast<Kernel *>(registry);
}

#ifndef STANDIN_NETWORKS

constexpr const char *METHOD = "forward";
constexpr const char *OPERATOR = "aten::add.out";
constexpr size_t PLANNED_BYTES = 32; /* input and output, 16 bytes each */

const int32_t shape[] = {4};
const uint8_t order[] = {0};
const Span<const int32_t> sizes(shape, 1);
const Span<const uint8_t> dims(order, 1);

/* Values of the method: input, the scalar to add, output. */
struct Values {
    TensorImpl *impls[3];
    EValue *values[3];
    EValue *stack[3];
};
Values *loaded;

TensorImpl *make_tensor(MemoryAllocator &memory, void *data, size_t ndim) {
    auto *sizes_of = memory.allocateList<int32_t>(1);
    auto *order_of = memory.allocateList<uint8_t>(1);
    auto *strides_of = memory.allocateList<int32_t>(1);
    void *place = memory.allocate(sizeof(TensorImpl), alignof(TensorImpl));
    if (sizes_of == nullptr || order_of == nullptr || strides_of == nullptr || place == nullptr) {
        return nullptr;
    }
    *sizes_of = shape[0];
    *order_of = 0;
    *strides_of = 1;
    return new (place)
        TensorImpl(ScalarType::Float, static_cast<ssize_t>(ndim), sizes_of, data, order_of, strides_of);
}

float scalar = 1;

Error make_values(MemoryManager &memory) {
    MemoryAllocator &method = *memory.method_allocator();
    loaded = method.allocateInstance<Values>();
    const Result<void *> input = memory.planned_memory()->get_offset_address(0, 0, 16);
    const Result<void *> output = memory.planned_memory()->get_offset_address(0, 16, 16);
    if (loaded == nullptr || !input.ok() || !output.ok()) {
        return Error::MemoryAllocationFailed;
    }
    void *data[] = {*input, &scalar, *output};
    for (size_t i = 0; i < 3; i++) {
        loaded->impls[i] = make_tensor(method, data[i], i == 1 ? 0 : 1);
        void *place = method.allocate(sizeof(EValue), alignof(EValue));
        if (loaded->impls[i] == nullptr || place == nullptr) {
            return Error::MemoryAllocationFailed;
        }
        loaded->values[i] = loaded->stack[i] = new (place) EValue(Tensor(loaded->impls[i]));
    }
    return Error::Ok;
}

#endif

} // namespace

bool register_pal(PalImpl impl) {
    platform = impl;
    return true;
}

void runtime_init() {
}

void runtime_abort() {
    std::abort();
}

namespace internal {

et_timestamp_t get_log_timestamp() {
    return platform.current_ticks != nullptr ? platform.current_ticks() : 0;
}

void vlogf(LogLevel level, et_timestamp_t timestamp, const char *file, const char *function, size_t line,
           const char *format, va_list arguments) {
    char text[128];
    const int length = std::vsnprintf(text, sizeof text, format, arguments);
    const auto severity = level >= LogLevel::Error ? kError : kInfo;
    if (platform.emit_log_message != nullptr && length >= 0) {
        platform.emit_log_message(timestamp, severity, file, function, line, text, std::strlen(text));
    }
}

Error resize_tensor_impl(TensorImpl *, ArrayRef<executorch::aten::SizesType>) {
    return Error::NotSupported;
}

Result<FreeableBuffer> PteDataMap::get_data(std::string_view) const {
    return Error::NotFound;
}

Result<uint32_t> PteDataMap::get_num_keys() const {
    return static_cast<uint32_t>(0);
}

Result<const char *> PteDataMap::get_key(uint32_t) const {
    return Error::NotFound;
}

} // namespace internal

namespace etensor {

TensorImpl::TensorImpl(ScalarType type, ssize_t dim, SizesType *sizes, void *data, DimOrderType *dim_order,
                       StridesType *strides, TensorShapeDynamism dynamism, DeviceType device_type,
                       DeviceIndex device_index)
    : sizes_(sizes), dim_order_(dim_order), strides_(strides), data_(data), dim_(dim), numel_(1),
      numel_bound_(0), type_(type), shape_dynamism_(dynamism), device_(device_type, device_index) {
    for (ssize_t i = 0; i < dim; i++) {
        numel_ *= sizes[i];
    }
    numel_bound_ = static_cast<size_t>(numel_);
}

size_t TensorImpl::nbytes() const {
    return numel_bound_ * executorch::runtime::elementSize(type_);
}

} // namespace etensor

Error register_kernels(const Span<const Kernel> added) {
    for (const Kernel &kernel : added) {
        if (registered == MOST_KERNELS) {
            return Error::RegistrationExceedingMaxKernels;
        }
        new (kernels() + registered++) Kernel(kernel);
    }
    return Error::Ok;
}

Span<const Kernel> get_registered_kernels() {
    return {kernels(), registered};
}

TensorInfo::TensorInfo(Span<const int32_t> sizes, Span<const uint8_t> dim_order,
                       executorch::aten::ScalarType type, const bool planned, std::string_view name,
                       size_t bytes)
    : sizes_(sizes), dim_order_(dim_order), name_(name), scalar_type_(type), is_memory_planned_(planned),
      nbytes_(bytes) {
}

Span<const int32_t> TensorInfo::sizes() const {
    return sizes_;
}

Span<const uint8_t> TensorInfo::dim_order() const {
    return dim_order_;
}

executorch::aten::ScalarType TensorInfo::scalar_type() const {
    return scalar_type_;
}

size_t TensorInfo::nbytes() const {
    return nbytes_;
}

#ifndef STANDIN_NETWORKS /* networks.cpp has another */

MethodMeta::MethodMeta(const executorch_flatbuffer::ExecutionPlan *plan) : s_plan_(plan) {
}

size_t MethodMeta::num_memory_planned_buffers() const {
    return 1;
}

Result<int64_t> MethodMeta::memory_planned_buffer_size(size_t) const {
    return static_cast<int64_t>(PLANNED_BYTES);
}

Result<TensorInfo> MethodMeta::input_tensor_meta(size_t) const {
    return TensorInfo(sizes, dims, executorch::aten::ScalarType::Float, true, {}, 16);
}

Result<TensorInfo> MethodMeta::output_tensor_meta(size_t index) const {
    return input_tensor_meta(index);
}

Result<Program> Program::load(DataLoader *loader, Verification) {
    Result<FreeableBuffer> file =
        loader->load(0, kMinHeadBytes, DataLoader::SegmentInfo(DataLoader::SegmentInfo::Type::Program));
    if (!file.ok()) {
        return file.error();
    }
    if (!constructed.yes) {
        ET_LOG(Error, "the constructors of static objects did not run");
        return Error::InvalidState;
    }
    if (std::memcmp(static_cast<const char *>(file->data()) + 4, "ET12", 4) != 0) {
        ET_LOG(Error, "Program identifier is not ET12");
        return Error::InvalidProgram;
    }
    return Program(loader, 0, std::move(*file), nullptr, FreeableBuffer(), std::nullopt);
}

size_t Program::num_methods() const {
    return 1;
}

Result<const char *> Program::get_method_name(size_t) const {
    return METHOD;
}

Result<MethodMeta> Program::method_meta(const char *) const {
    return MethodMeta(nullptr);
}

Result<Method> Program::load_method(const char *, MemoryManager *memory, EventTracer *tracer,
                                    const NamedDataMap *, const LoadBackendOptionsMap *,
                                    Span<const Kernel>) const {
    internal::event_tracer_create_event_block(tracer, "Default");
    internal::EventTracerProfileMethodScope scope(tracer, "Program::load_method");
    Method method(this, memory, tracer, memory->temp_allocator());
    const Error code = method.init(nullptr, nullptr, nullptr);
    if (code != Error::Ok) {
        return code;
    }
    return method;
}

Error Method::init(executorch_flatbuffer::ExecutionPlan *, const NamedDataMap *,
                   const LoadBackendOptionsMap *) {
    internal::EventTracerProfileMethodScope scope(event_tracer_, "Method::init");
    const Error code = make_values(*memory_manager_);
    if (code != Error::Ok) {
        return code;
    }
    for (const Kernel &kernel : get_registered_kernels()) {
        if (std::strcmp(kernel.name_, OPERATOR) == 0) {
            init_state_ = InitializationState::Initialized;
            kernel_registry_ = {&kernel, 1};
            return Error::Ok;
        }
    }
    ET_LOG(Error, "Missing operator: [%d] %s", 0, OPERATOR);
    return Error::OperatorMissing;
}

Method::~Method() = default;

size_t Method::inputs_size() const {
    return 1;
}

size_t Method::outputs_size() const {
    return 1;
}

const EValue &Method::get_input(size_t) const {
    return *loaded->values[0];
}

const EValue &Method::get_output(size_t) const {
    return *loaded->values[2];
}

MethodMeta Method::method_meta() const {
    return program_->method_meta(METHOD).get();
}

Error Method::set_input(const EValue &value, size_t) {
    std::memcpy(loaded->impls[0]->mutable_data(), value.toTensor().const_data_ptr(), 16);
    return Error::Ok;
}

Error Method::set_output_data_ptr(void *, size_t, size_t) {
    return Error::NotSupported;
}

Error Method::execute() {
    internal::event_tracer_create_event_block(event_tracer_, "Execute");
    internal::EventTracerProfileMethodScope scope(event_tracer_, "Method::execute");
    Error code = Error::Ok;
    {
        internal::EventTracerProfileInstructionScope instruction(event_tracer_, 0, 0);
        internal::EventTracerProfileOpScope call(event_tracer_, "OPERATOR_CALL");
        KernelRuntimeContext context(event_tracer_, temp_allocator_);
        kernel_registry_[0].op_(context, {loaded->stack, 3});
        code = context.failure_state();
    }
    temp_allocator_->reset();
    if (code != Error::Ok) {
        ET_LOG(Error, "KernelCall failed at instruction 0:0 in operator %s: 0x%x", OPERATOR,
               static_cast<unsigned>(code));
        return code;
    }
    internal::event_tracer_log_evalue_output(event_tracer_, *loaded->values[2]);
    return Error::Ok;
}

#endif

} // namespace executorch::runtime
