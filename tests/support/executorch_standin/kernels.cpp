// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#include <cstring>
#include <random>

using namespace executorch::runtime;
using executorch::aten::Tensor;

void standin::add_out(KernelRuntimeContext &context, const Tensor &a, const Tensor &b, Tensor &out) {
    const float *left = a.const_data_ptr<float>();
    if (left[0] < 0) {
        ET_LOG(Error, "add.out: a negative number");
        context.fail(Error::InvalidArgument);
        return;
    }
    const Result<void *> room = context.allocate_temp(a.nbytes());
    if (!room.ok()) {
        context.fail(room.error());
        return;
    }
    auto *sum = static_cast<float *>(*room);
    for (ssize_t i = 0; i < a.numel(); i++) {
        sum[i] = left[i] + b.const_data_ptr<float>()[0];
    }
    std::memcpy(out.mutable_data_ptr<float>(), sum, a.nbytes());
}

/* As aten::rand.out, whose random device needs a function of the board. */
void standin::rand_out(KernelRuntimeContext &, Tensor &out) {
    std::random_device seeds;
    out.mutable_data_ptr<float>()[0] = static_cast<float>(seeds());
}
