// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/number.h"

/* Copies argument 1 to an output with the sizes of argument 0. */
static const char *copy_to(const etd_call *call, etd_tensor *out) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    const etd_tensor *source = etd_arg_tensor(call, 1);
    if (!etd_is_numeric(self) || !etd_is_numeric(source) || !etd_is_type(out, self->dtype)) {
        return "invalid type of self, src or output";
    }
    if (!etd_resize_like(out, self)) {
        return "invalid output size";
    }
    return etd_assign(source, out) ? NULL : "src does not broadcast to self";
}

/* copy_(self, src, non_blocking): writes to self, such as a buffer that the program updates */
static const char *copy_in_place(const etd_call *call) {
    return copy_to(call, etd_arg_out(call, 0));
}

/* copy(self, src, non_blocking, *, out) */
static const char *copy(const etd_call *call) {
    return copy_to(call, etd_arg_out(call, 3));
}

const etd_kernel etd_aten_copy_in_place = {"aten::copy_", "", "native_call_copy_", 3, copy_in_place};
const etd_kernel etd_aten_copy = {"aten::copy", "out", "native_call_copy.out", 4, copy};
