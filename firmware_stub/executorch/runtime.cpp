// SPDX-License-Identifier: Apache-2.0
/* etd_runtime.h on ExecuTorch. Linked instead of src/runtime and src/kernels, it runs ExecuTorch behind the
 * link server. Traces go to our tracer, or with ETD_USE_ETDUMPGEN to ExecuTorch's ETDumpGen, whose file the
 * host reads.
 *
 * Each load divides the arena: planned buffers, the description of the method, and the last quarter for
 * temporary memory of kernels. A firmware has one server, so all state here is global. */
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/runtime.h>

#include <cstring>
#include <new>
#include <optional>

#include "etd_kernel.h"
#include "etd_runtime.h"
#include "etdump_stub/allocator.hpp"

/* The build names what it links, because the libraries do not. */
#ifndef ETD_RUNTIME_NAME
#define ETD_RUNTIME_NAME "ExecuTorch"
#endif
#ifndef ETD_KERNEL_LIBRARY
#define ETD_KERNEL_LIBRARY "unnamed kernels"
#endif

#ifdef ETD_USE_ETDUMPGEN
#include <cstdlib>
#include <executorch/devtools/etdump/etdump_flatcc.h>
#else
#include "etdump_stub/event_tracer.hpp"
#endif

#ifdef __ELF__
/* Memory of string literals, if the port's linker script has these symbols. */
extern "C" const char constants_start[] __attribute__((weak));
extern "C" const char constants_end[] __attribute__((weak));
#else
static const char *const constants_start = nullptr;
static const char *const constants_end = nullptr;
#endif

namespace {

using namespace executorch::runtime;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;

constexpr size_t TEMPORARY_SHARE = 4; /* fraction of the arena for temporary memory: a quarter */

/* The last error logged by ExecuTorch. It has more detail than the error code, such as the name of a missing
 * operator. */
char last_error[ETD_ERROR_MESSAGE_SIZE];
etd_ticks_fn port_ticks;
void *port_context;

et_timestamp_t current_ticks() {
    return port_ticks != nullptr ? port_ticks(port_context) : 0;
}

void keep_error(et_timestamp_t, et_pal_log_level_t level, const char *, const char *, size_t,
                const char *message, size_t length) {
    /* The first error is the cause; later ones repeat it. */
    if ((level == kError || level == kFatal) && last_error[0] == '\0') {
        const size_t kept = length < sizeof last_error ? length : sizeof last_error - 1;
        std::memcpy(last_error, message, kept);
        last_error[kept] = '\0';
    }
}

/* A trace, which must outlive its method, because it is read after the run. */
#ifdef ETD_USE_ETDUMPGEN
class Trace {
  public:
    /* Without a debug buffer ETDumpGen would abort at the first tensor. */
    explicit Trace(etd_tracer &tracer) : buffer_(tracer.debug) {
        generator_.set_event_tracer_profiling_level(
            static_cast<EventTracerProfilingLevel>(tracer.profiling_level));
        if (tracer.debug_level > ETD_DEBUG_NO_LOGGING && tracer.debug_capacity > 0 &&
            generator_.set_debug_buffer({tracer.debug, tracer.debug_capacity}).ok()) {
            generator_.set_event_tracer_debug_level(
                static_cast<EventTracerDebugLogLevel>(tracer.debug_level));
        }
    }
    ~Trace() {
        std::free(file_.buf);
    }
    EventTracer *events() {
        return &generator_;
    }
    /* Finalizing appends to the file, so it is done once. */
    const void *file(uint32_t index, uint32_t *size) {
        if (index == 1) {
            return debug_buffer(size);
        }
        if (file_.buf == nullptr) {
            file_ = generator_.get_etdump_data();
        }
        *size = static_cast<uint32_t>(file_.size);
        return file_.buf;
    }

  private:
    const void *debug_buffer(uint32_t *size) {
        executorch::etdump::DataSinkBase *sink = generator_.get_data_sink();
        *size = sink != nullptr ? static_cast<uint32_t>(sink->get_used_bytes()) : 0;
        return *size > 0 ? buffer_ : nullptr;
    }

    const uint8_t *buffer_;
    executorch::etdump::ETDumpGen generator_;
    executorch::etdump::ETDumpResult file_ = {nullptr, 0};
};
#else
class Trace {
  public:
    explicit Trace(etd_tracer &tracer) : events_(tracer, TICK_BITS, {constants_start, constants_end}) {
    }
    EventTracer *events() {
        return &events_;
    }
    const void *file(uint32_t, uint32_t *) {
        return nullptr; /* log and debug buffer belong to the tracer */
    }

  private:
    static constexpr uint8_t TICK_BITS = 32;
    etdump_stub::EventTracer events_;
};
#endif

/* The model in memory. Kept here because ExecuTorch's own BufferDataLoader belongs to an extension, which
 * builds for microcontrollers leave out. */
class ModelLoader final : public DataLoader {
  public:
    ModelLoader(const void *data, size_t size) : data_(static_cast<const uint8_t *>(data)), size_(size) {
    }
    Result<FreeableBuffer> load(size_t offset, size_t size, const SegmentInfo &) const override {
        if (!holds(offset, size)) {
            return Error::InvalidArgument;
        }
        return FreeableBuffer(data_ + offset, size, nullptr); /* nothing to free */
    }
    Error load_into(size_t offset, size_t size, const SegmentInfo &, void *buffer) const override {
        if (!holds(offset, size)) {
            return Error::InvalidArgument;
        }
        std::memcpy(buffer, data_ + offset, size);
        return Error::Ok;
    }
    Result<size_t> size() const override {
        return size_;
    }

  private:
    bool holds(size_t offset, size_t size) const {
        return offset <= size_ && size <= size_ - offset;
    }

    const uint8_t *data_;
    size_t size_;
};

using LoggingAllocator = etdump_stub::LoggingAllocator<>;

/* State of the loaded method. Later members refer to earlier ones. */
struct Loaded {
    std::optional<ModelLoader> loader;
    std::optional<Program> program;
    std::optional<LoggingAllocator> method_memory;
    std::optional<LoggingAllocator> temporary_memory;
    std::optional<HierarchicalAllocator> planned_memory;
    std::optional<MemoryManager> memory;
    std::optional<Method> method;
    Span<Span<uint8_t>> planned; /* the buffers of planned_memory */
    etd_tracer *memory_log;      /* null without a log of our tracer */
    etd_tensor *inputs;
    etd_tensor *outputs;
    TensorImpl **staged; /* per input, refers to inputs[i].data */
};

std::optional<Trace> trace;
Loaded loaded;

etd_status to_status(Error code) {
    switch (code) {
    case Error::OperatorMissing:
        return ETD_LINK_STATUS_UNSUPPORTED_OPERATOR;
    case Error::MemoryAllocationFailed:
        return ETD_LINK_STATUS_OUT_OF_MEMORY;
    case Error::InvalidProgram:
        return ETD_LINK_STATUS_BAD_PROGRAM;
    default:
        return ETD_LINK_STATUS_UNSUPPORTED_FEATURE;
    }
}

static_assert(static_cast<uint32_t>(Error::OperatorMissing) == ETD_LINK_EXECUTORCH_ERROR_OPERATOR_MISSING &&
                  static_cast<uint32_t>(Error::DelegateInvalidHandle) ==
                      ETD_LINK_EXECUTORCH_ERROR_DELEGATE_INVALID_HANDLE,
              "the host names ExecuTorch's errors by these numbers (schema/link.toml)");

etd_status fail(etd_error *error, etd_status status, Error code) {
    const char *words = last_error[0] != '\0' ? last_error : to_string(code);
    (void)etd_fail(error, status, static_cast<uint32_t>(code), words, nullptr);
    if (error != nullptr) {
        error->detail_kind = ETD_LINK_DETAIL_KIND_EXECUTORCH;
    }
    return status;
}

/* Describes a tensor for the server. Returns false if it has too many dimensions. */
bool describe(const Tensor &tensor, etd_tensor *out) {
    if (tensor.dim() > ETD_MAX_DIMS) {
        return false;
    }
    *out = etd_tensor{};
    out->data = static_cast<uint8_t *>(tensor.mutable_data_ptr());
    out->capacity = static_cast<uint32_t>(tensor.nbytes());
    out->nbytes = static_cast<uint32_t>(tensor.nbytes());
    out->ndim = static_cast<uint8_t>(tensor.dim());
    out->dtype = static_cast<uint8_t>(tensor.scalar_type());
    for (size_t i = 0; i < out->ndim; i++) {
        out->sizes[i] = tensor.sizes()[i];
        out->strides[i] = tensor.strides()[i];
        out->dim_order[i] = tensor.dim_order()[i];
    }
    return true;
}

void set_strides(etd_tensor &tensor) {
    int32_t stride = 1;
    for (size_t i = tensor.ndim; i-- > 0; stride *= tensor.sizes[tensor.dim_order[i]]) {
        tensor.strides[tensor.dim_order[i]] = stride;
    }
}

/* Returns the upper bounds of a tensor's sizes, in the file; null for a static shape. */
const uint8_t *bounds_of(const EValue &value, const TensorInfo &info) {
    return value.isTensor() && value.toTensor().shape_dynamism() != TensorShapeDynamism::STATIC
               ? reinterpret_cast<const uint8_t *>(info.sizes().data())
               : nullptr;
}

/* Deprecated in favor of metadata, which do not show whether a shape is dynamic. */
const EValue &input_value(size_t index) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return loaded.method->get_input(index);
#pragma GCC diagnostic pop
}

/* The planned memory of an input may be shared or missing. So each input has its own memory, which set_input
 * copies or refers to. */
Error stage_input(size_t index, MemoryAllocator &memory) {
    const Result<TensorInfo> info = loaded.method->method_meta().input_tensor_meta(index);
    if (!info.ok()) {
        return info.error();
    }
    etd_tensor *input = &loaded.inputs[index];
    const size_t ndim = info->sizes().size();
    if (ndim > ETD_MAX_DIMS) {
        return Error::NotSupported;
    }
    *input = etd_tensor{};
    input->nbytes = input->capacity = static_cast<uint32_t>(info->nbytes());
    input->bounds = bounds_of(input_value(index), *info);
    input->data = static_cast<uint8_t *>(memory.allocate(info->nbytes()));
    input->ndim = static_cast<uint8_t>(ndim);
    input->dtype = static_cast<uint8_t>(info->scalar_type());
    for (size_t i = 0; i < ndim; i++) {
        input->sizes[i] = info->sizes()[i];
        input->dim_order[i] = info->dim_order()[i];
    }
    set_strides(*input);
    void *place = memory.allocate(sizeof(TensorImpl), alignof(TensorImpl));
    if (place == nullptr || input->data == nullptr) {
        return Error::MemoryAllocationFailed;
    }
    loaded.staged[index] =
        new (place) TensorImpl(info->scalar_type(), static_cast<ssize_t>(ndim), input->sizes, input->data,
                               input->dim_order, input->strides, TensorShapeDynamism::DYNAMIC_BOUND);
    return Error::Ok;
}

Error place_output(size_t index, MemoryAllocator &memory) {
    const EValue &value = loaded.method->get_output(index);
    if (!value.isTensor()) {
        return Error::NotSupported;
    }
    if (value.toTensor().const_data_ptr() != nullptr) {
        return Error::Ok;
    }
    const size_t size = value.toTensor().nbytes();
    void *place = memory.allocate(size);
    return place == nullptr ? Error::MemoryAllocationFailed
                            : loaded.method->set_output_data_ptr(place, size, index);
}

bool describe_outputs() {
    for (size_t i = 0; i < loaded.method->outputs_size(); i++) {
        const EValue &value = loaded.method->get_output(i);
        const Result<TensorInfo> info = loaded.method->method_meta().output_tensor_meta(i);
        if (!info.ok() || !describe(value.toTensor(), &loaded.outputs[i])) {
            return false;
        }
        loaded.outputs[i].bounds = bounds_of(value, *info);
    }
    return true;
}

Error place_tensors() {
    MemoryAllocator &memory = *loaded.method_memory;
    const size_t inputs = loaded.method->inputs_size();
    const size_t outputs = loaded.method->outputs_size();
    loaded.inputs = memory.allocateList<etd_tensor>(inputs);
    loaded.staged = memory.allocateList<TensorImpl *>(inputs);
    loaded.outputs = memory.allocateList<etd_tensor>(outputs);
    if (loaded.inputs == nullptr || loaded.staged == nullptr || loaded.outputs == nullptr) {
        return Error::MemoryAllocationFailed;
    }
    Error code = Error::Ok;
    for (size_t i = 0; i < inputs && code == Error::Ok; i++) {
        code = stage_input(i, memory);
    }
    for (size_t i = 0; i < outputs && code == Error::Ok; i++) {
        code = place_output(i, memory);
    }
    return code != Error::Ok || describe_outputs() ? code : Error::NotSupported;
}

/* Allocates the planned buffers from the method's memory. *total is their size in bytes. */
Error plan_memory(const MethodMeta &meta, uint32_t *total) {
    MemoryAllocator &memory = *loaded.method_memory;
    const size_t count = meta.num_memory_planned_buffers();
    auto *buffers = memory.allocateList<Span<uint8_t>>(count);
    for (size_t i = 0; i < count; i++) {
        const Result<int64_t> size = meta.memory_planned_buffer_size(i);
        if (!size.ok()) {
            return size.error();
        }
        auto *place = static_cast<uint8_t *>(memory.allocate(static_cast<size_t>(*size)));
        if (buffers == nullptr || place == nullptr) {
            return Error::MemoryAllocationFailed;
        }
        std::memset(place, 0, static_cast<size_t>(*size)); /* as src/runtime does */
        buffers[i] = Span<uint8_t>(place, static_cast<size_t>(*size));
        *total += static_cast<uint32_t>(*size);
    }
    loaded.planned = Span<Span<uint8_t>>(buffers, count);
    loaded.planned_memory.emplace(loaded.planned);
    return Error::Ok;
}

Error load(const char *name, uint8_t *arena, uint32_t arena_size, EventTracer *events, uint32_t *planned) {
    const uint32_t temporary = arena_size / TEMPORARY_SHARE;
    loaded.method_memory.emplace("method", arena_size - temporary, arena);
    loaded.temporary_memory.emplace("temporary", temporary, arena + (arena_size - temporary));
    const Result<MethodMeta> meta = loaded.program->method_meta(name);
    if (!meta.ok()) {
        return meta.error();
    }
    const Error code = plan_memory(*meta, planned);
    if (code != Error::Ok) {
        return code;
    }
    loaded.memory.emplace(&*loaded.method_memory, &*loaded.planned_memory, &*loaded.temporary_memory);
    loaded.method_memory->log_to(loaded.memory_log, loaded.planned);
    loaded.temporary_memory->log_to(loaded.memory_log); /* declares it */
    loaded.temporary_memory->log_to(nullptr);
    Result<Method> method = loaded.program->load_method(name, &*loaded.memory, events);
    loaded.method_memory->log_to(nullptr);
    if (!method.ok()) {
        return method.error();
    }
    loaded.method.emplace(std::move(*method));
    return place_tensors();
}

/* Returns the program's own copy of a method's name, or null if there is no such method. */
const char *find_name(const char *name) {
    for (size_t i = 0; i < loaded.program->num_methods(); i++) {
        const Result<const char *> found = loaded.program->get_method_name(i);
        if (found.ok() && std::strcmp(*found, name) == 0) {
            return *found;
        }
    }
    return nullptr;
}

/* Fails with a message that lists the methods of the program. */
etd_status refuse_name(const char *name, etd_error *error) {
    constexpr size_t listed = 8; /* limit of a message */
    const char *parts[2 + 2 * listed + 1] = {name, ": method not found"};
    const size_t methods = loaded.program->num_methods();
    for (size_t i = 0; i < methods && i < listed; i++) {
        const Result<const char *> found = loaded.program->get_method_name(i);
        parts[2 + 2 * i] = i == 0 ? "; available: " : ", ";
        parts[3 + 2 * i] = found.ok() ? *found : "?";
    }
    return etd_fail_parts(error, ETD_LINK_STATUS_NO_METHOD, static_cast<uint32_t>(methods), parts);
}

void register_platform() {
    PalImpl platform = {};
    platform.current_ticks = current_ticks;
    platform.emit_log_message = keep_error;
    platform.source_filename = __FILE__;
    (void)register_pal(platform);
    runtime_init();
}

} // namespace

extern "C" {

extern const char etd_runtime_name[] = ETD_RUNTIME_NAME;
extern const char etd_kernel_library[] = ETD_KERNEL_LIBRARY;

/* Asked for when constructors have registered all kernels. */
uint32_t etd_operator_count() {
    return static_cast<uint32_t>(get_registered_kernels().size());
}

etd_status etd_program_open(etd_program *program, const void *data, uint32_t size, etd_error *error) {
    register_platform();
    last_error[0] = '\0';
    loaded.method.reset();
    loaded.program.reset();
    *program = etd_program{static_cast<const uint8_t *>(data), size, size, size, 0};
    loaded.loader.emplace(data, size);
    Result<Program> opened = Program::load(&*loaded.loader, Program::Verification::InternalConsistency);
    if (!opened.ok()) {
        return fail(error, ETD_LINK_STATUS_BAD_PROGRAM, opened.error());
    }
    loaded.program.emplace(std::move(*opened));
    return ETD_LINK_STATUS_OK;
}

etd_status etd_method_load(etd_method *method, const etd_program *, const char *name, void *arena,
                           uint32_t arena_size, etd_tracer *tracer, etd_error *error) {
    last_error[0] = '\0';
    loaded.method.reset();
    trace.reset();
    *method = etd_method{};
    EventTracer *events = nullptr;
    if (tracer != nullptr) {
        port_ticks = tracer->ticks;
        port_context = tracer->ticks_context;
        trace.emplace(*tracer);
        events = trace->events();
    }
#ifndef ETD_USE_ETDUMPGEN
    loaded.memory_log = tracer;
#endif
    method->name = find_name(name);
    if (method->name == nullptr) {
        return refuse_name(name, error);
    }
    const Error code = load(name, static_cast<uint8_t *>(arena), arena_size, events, &method->planned_bytes);
    if (code != Error::Ok) {
        loaded.method.reset();
        return fail(error, to_status(code), code);
    }
    method->input_count = static_cast<uint32_t>(loaded.method->inputs_size());
    method->output_count = static_cast<uint32_t>(loaded.method->outputs_size());
    method->method_bytes = static_cast<uint32_t>(loaded.method_memory->used_size()) - method->planned_bytes;
    return ETD_LINK_STATUS_OK;
}

void etd_method_unload(etd_method *) {
    loaded.method.reset();
}

etd_tensor *etd_method_input(const etd_method *method, uint32_t index) {
    return index < method->input_count ? &loaded.inputs[index] : nullptr;
}

bool etd_method_resize_input(etd_method *method, uint32_t index, const int32_t *sizes) {
    if (index >= method->input_count) {
        return false;
    }
    etd_tensor &input = loaded.inputs[index];
    int32_t wanted[ETD_MAX_DIMS]; /* a copy, because resizing reads and writes the staged tensor's sizes */
    std::memcpy(wanted, sizes, input.ndim * sizeof *sizes);
    TensorImpl *staged = loaded.staged[index];
    if (resize_tensor(Tensor(staged), {wanted, input.ndim}) != Error::Ok) {
        return false;
    }
    input.nbytes = static_cast<uint32_t>(staged->nbytes());
    set_strides(input);
    return true;
}

etd_tensor *etd_method_output(const etd_method *method, uint32_t index) {
    return index < method->output_count ? &loaded.outputs[index] : nullptr;
}

etd_status etd_method_execute(etd_method *method, etd_error *error) {
    last_error[0] = '\0';
    Error code = Error::Ok;
    for (size_t i = 0; i < method->input_count && code == Error::Ok; i++) {
        code = loaded.method->set_input(EValue(Tensor(loaded.staged[i])), i);
    }
    if (code == Error::Ok) {
        loaded.temporary_memory->log_to(loaded.memory_log);
        code = loaded.method->execute();
        loaded.temporary_memory->log_to(nullptr);
    }
    if (code == Error::Ok && !describe_outputs()) {
        code = Error::NotSupported;
    }
    if (code != Error::Ok) {
        return fail(error, ETD_LINK_STATUS_KERNEL_FAILED, code);
    }
    return ETD_LINK_STATUS_OK;
}

const void *etd_method_trace(const etd_method *, uint32_t index, uint32_t *size) {
    return trace.has_value() && index <= 1 ? trace->file(index, size) : nullptr;
}

} // extern "C"
