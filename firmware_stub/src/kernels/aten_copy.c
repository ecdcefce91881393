#include "kernels.h"
#include "number.h"

/* Copies argument 1 to an output of the size of argument 0. */
static const char *copy_to(const et_call *call, et_tensor *out) {
    const et_tensor *self = et_arg_tensor(call, 0);
    const et_tensor *source = et_arg_tensor(call, 1);
    if (!et_is_numeric(self) || !et_is_numeric(source) || !et_is_type(out, self->dtype)) {
        return "type of self, src or output";
    }
    if (!et_resize_like(out, self)) {
        return "output size";
    }
    return et_assign(source, out) ? NULL : "src does not broadcast to self";
}

/* copy_(self, src, non_blocking): writes to self, such as a buffer that an execution leaves changed */
static const char *copy_in_place(const et_call *call) {
    return copy_to(call, et_arg_out(call, 0));
}

/* copy(self, src, non_blocking, *, out) */
static const char *copy(const et_call *call) {
    return copy_to(call, et_arg_out(call, 3));
}

const et_kernel et_aten_copy_in_place = {"aten::copy_", "", "native_call_copy_", 3, copy_in_place};
const et_kernel et_aten_copy = {"aten::copy", "out", "native_call_copy.out", 4, copy};
