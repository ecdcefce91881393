// SPDX-License-Identifier: Apache-2.0
/* Registers a kernel as ExecuTorch's generated code does: in the constructor of a static object, to which
 * nothing refers. */
#include "kernels.h"

#include <executorch/runtime/core/event_tracer_hooks.h>
#include <executorch/runtime/kernel/operator_registry.h>

using namespace executorch::runtime;

static void call_add(KernelRuntimeContext &context, Span<EValue *> stack) {
    internal::EventTracerProfileOpScope scope(context.internal_event_tracer(), "native_call_add.out");
    standin::add_out(context, stack[0]->toTensor(), stack[1]->toTensor(), stack[2]->toTensor());
    internal::event_tracer_log_evalue(context.internal_event_tracer(), *stack[2]);
}

static void call_rand(KernelRuntimeContext &context, Span<EValue *> stack) {
    standin::rand_out(context, stack[0]->toTensor());
}

static const Kernel kernels[] = {Kernel("aten::add.out", call_add), Kernel("aten::rand.out", call_rand)};
static const Error registered = register_kernels({kernels, 2});
