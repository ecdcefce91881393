#include "arguments.h"
#include "kernels.h"
#include "walk.h"

/* view_copy(input, size, *, out): the same elements in the order of their indexes under another shape. */
static const char *view_copy(const et_call *call) {
    const et_tensor *input = et_arg_tensor(call, 0);
    et_tensor *out = et_arg_out(call, 2);
    int32_t sizes[ET_MAX_DIMS];
    uint32_t ndim;
    if (input == NULL || !et_is_type(out, input->dtype)) {
        return "input and output differ in type";
    }
    if (!et_arg_view_sizes(call, 1, input, sizes, &ndim)) {
        return "size";
    }
    if (!et_resize(out, sizes, ndim)) {
        return "output size";
    }
    et_copy_in_order(input, out);
    return NULL;
}

const et_kernel et_aten_view_copy = {"aten::view_copy", "out", "native_call_view_copy.out", 3, view_copy};
