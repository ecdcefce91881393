// SPDX-License-Identifier: Apache-2.0
#include <executorch/runtime/kernel/operator_registry.h>

using namespace executorch::runtime;

static const Kernel kernels[] = {
    Kernel("executorch_prim::et_view.default", [](KernelRuntimeContext &, Span<EValue *>) {}),
};
static const Error registered = register_kernels({kernels, 1});
