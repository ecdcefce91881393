// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <executorch/runtime/kernel/kernel_includes.h>

namespace standin {

/* Adds a scalar tensor to four floats, through temporary memory. Fails if the first one is negative. */
void add_out(executorch::runtime::KernelRuntimeContext &context, const executorch::aten::Tensor &a,
             const executorch::aten::Tensor &b, executorch::aten::Tensor &out);

/* Fills a tensor with random numbers. */
void rand_out(executorch::runtime::KernelRuntimeContext &context, executorch::aten::Tensor &out);

} // namespace standin
