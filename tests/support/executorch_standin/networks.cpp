// SPDX-License-Identifier: Apache-2.0
/* Programs and methods for any network: our C runtime and kernels in place of ExecuTorch's, with the names of
 * their functions changed (CMakeLists.txt). They log to the tracer behind the EventTracer. */
#include <executorch/runtime/core/event_tracer_hooks.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/kernel/kernel_includes.h>

#include <cstring>
#include <new>

#include "etd_runtime.h"
#include "etdump_stub/event_tracer.hpp"

extern "C" {
etd_status standin_program_open(etd_program *program, const void *data, uint32_t size, etd_error *error);
etd_status standin_method_load(etd_method *method, const etd_program *program, const char *name, void *arena,
                               uint32_t arena_size, etd_tracer *tracer, etd_error *error);
etd_status standin_method_execute(etd_method *method, etd_error *error);
etd_tensor *standin_method_input(const etd_method *method, uint32_t index);
etd_tensor *standin_method_output(const etd_method *method, uint32_t index);

/* What the adapter logs of ExecuTorch's allocators is all there is. */
uint32_t standin_track_allocator(etd_tracer *, const char *) {
    return 0;
}
void standin_track(etd_tracer *, uint32_t, uint32_t, uint32_t) {
}
void standin_track_free(etd_tracer *, uint32_t, uint32_t, uint32_t) {
}
void standin_track_failure(etd_tracer *, uint32_t, uint32_t) {
}
}

namespace executorch::runtime {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;

namespace {

etd_program program;
etd_method measured, loaded; /* the former failed for want of memory, so its sizes are known */
etd_error problem;
alignas(16) uint8_t nothing[16];
EValue *values[2]; /* of inputs and of outputs */

Error fail(etd_status status) {
    ET_LOG(Error, "%s", problem.message);
    switch (status) {
    case ETD_LINK_STATUS_OUT_OF_MEMORY:
        return Error::MemoryAllocationFailed;
    case ETD_LINK_STATUS_UNSUPPORTED_OPERATOR:
        return Error::OperatorMissing;
    case ETD_LINK_STATUS_BAD_PROGRAM:
        return Error::InvalidProgram;
    default:
        return Error::NotSupported;
    }
}

/* Nothing is logged of this, as it is not ExecuTorch's. */
template <typename T> T *take(MemoryAllocator &memory, uint32_t count) {
    return static_cast<T *>(memory.MemoryAllocator::allocate(count * sizeof(T), alignof(T)));
}

EValue *make_values(MemoryAllocator &memory, uint32_t count,
                    etd_tensor *(*tensor_of)(const etd_method *, uint32_t)) {
    auto *made = take<EValue>(memory, count);
    for (uint32_t i = 0; made != nullptr && i < count; i++) {
        etd_tensor *tensor = tensor_of(&loaded, i);
        auto *impl = take<TensorImpl>(memory, 1);
        if (tensor == nullptr || impl == nullptr) {
            return nullptr;
        }
        new (impl) TensorImpl(static_cast<ScalarType>(tensor->dtype), tensor->ndim, tensor->sizes,
                              tensor->data, tensor->dim_order, tensor->strides);
        new (&made[i]) EValue(Tensor(impl));
    }
    return made;
}

Result<TensorInfo> info_of(const etd_tensor *tensor) {
    if (tensor == nullptr) {
        return Error::InvalidArgument;
    }
    return TensorInfo({tensor->sizes, tensor->ndim}, {tensor->dim_order, tensor->ndim},
                      static_cast<ScalarType>(tensor->dtype), true, {}, tensor->nbytes);
}

} // namespace

MethodMeta::MethodMeta(const executorch_flatbuffer::ExecutionPlan *plan) : s_plan_(plan) {
}

size_t MethodMeta::num_memory_planned_buffers() const {
    return 1;
}

Result<int64_t> MethodMeta::memory_planned_buffer_size(size_t) const {
    return static_cast<int64_t>(measured.planned_bytes);
}

Result<TensorInfo> MethodMeta::input_tensor_meta(size_t index) const {
    return info_of(standin_method_input(&loaded, static_cast<uint32_t>(index)));
}

Result<TensorInfo> MethodMeta::output_tensor_meta(size_t index) const {
    return info_of(standin_method_output(&loaded, static_cast<uint32_t>(index)));
}

Result<Program> Program::load(DataLoader *loader, Verification) {
    const Result<size_t> size = loader->size();
    Result<FreeableBuffer> file =
        loader->load(0, *size, DataLoader::SegmentInfo(DataLoader::SegmentInfo::Type::Program));
    if (!file.ok()) {
        return file.error();
    }
    const etd_status status =
        standin_program_open(&program, file->data(), static_cast<uint32_t>(*size), &problem);
    if (status != ETD_LINK_STATUS_OK) {
        return fail(status);
    }
    return Program(loader, 0, std::move(*file), nullptr, FreeableBuffer(), std::nullopt);
}

size_t Program::num_methods() const {
    return 1;
}

Result<const char *> Program::get_method_name(size_t) const {
    return "forward";
}

Result<MethodMeta> Program::method_meta(const char *name) const {
    const etd_status status =
        standin_method_load(&measured, &program, name, nothing, sizeof nothing, nullptr, &problem);
    if (status != ETD_LINK_STATUS_OUT_OF_MEMORY) {
        return fail(status);
    }
    return MethodMeta(nullptr);
}

Result<Method> Program::load_method(const char *name, MemoryManager *memory, EventTracer *tracer,
                                    const NamedDataMap *, const LoadBackendOptionsMap *,
                                    Span<const Kernel>) const {
    etd_tracer *log = tracer != nullptr ? &static_cast<etdump_stub::EventTracer *>(tracer)->tracer_ : nullptr;
    MemoryAllocator &allocator = *memory->method_allocator();
    const uint32_t size = measured.method_bytes + measured.planned_bytes + 16;
    /* The block of the log begins before this is logged. */
    void *arena = allocator.MemoryAllocator::allocate(size, 16);
    if (arena == nullptr) {
        return Error::MemoryAllocationFailed;
    }
    const etd_status status = standin_method_load(&loaded, &program, name, arena, size, log, &problem);
    if (status != ETD_LINK_STATUS_OK) {
        return fail(status);
    }
    for (uint32_t i = 0; i < loaded.input_count; i++) {
        if (standin_method_input(&loaded, i)->bounds != nullptr) {
            ET_LOG(Error, "the stand-in has no dynamic shapes");
            return Error::NotSupported;
        }
    }
    values[0] = make_values(allocator, loaded.input_count, standin_method_input);
    values[1] = make_values(allocator, loaded.output_count, standin_method_output);
    if (values[0] == nullptr || values[1] == nullptr) {
        return Error::MemoryAllocationFailed;
    }
    Method method(this, memory, tracer, memory->temp_allocator());
    method.init_state_ = Method::InitializationState::Initialized;
    return method;
}

Method::~Method() = default;

size_t Method::inputs_size() const {
    return loaded.input_count;
}

size_t Method::outputs_size() const {
    return loaded.output_count;
}

const EValue &Method::get_input(size_t index) const {
    return values[0][index];
}

const EValue &Method::get_output(size_t index) const {
    return values[1][index];
}

MethodMeta Method::method_meta() const {
    return MethodMeta(nullptr);
}

Error Method::set_input(const EValue &value, size_t index) {
    const etd_tensor *input = standin_method_input(&loaded, static_cast<uint32_t>(index));
    std::memcpy(input->data, value.toTensor().const_data_ptr(), input->nbytes);
    return Error::Ok;
}

Error Method::set_output_data_ptr(void *, size_t, size_t) {
    return Error::NotSupported;
}

Error Method::execute() {
    const etd_status status = standin_method_execute(&loaded, &problem);
    return status == ETD_LINK_STATUS_OK ? Error::Ok : fail(status);
}

} // namespace executorch::runtime
