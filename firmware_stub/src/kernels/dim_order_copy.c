#include "kernels.h"
#include "number.h"

/* _to_dim_order_copy and _clone_dim_order(input, *, non_blocking, dim_order?, out): the output has the order
 * and the type. */
static const char *dim_order_copy(const et_call *call) {
    const et_tensor *input = et_arg_tensor(call, 0);
    et_tensor *out = et_arg_out(call, 3);
    if (!et_is_numeric(input) || !et_is_numeric(out)) {
        return "type of input or output";
    }
    return et_resize_like(out, input) && et_assign(input, out) ? NULL : "input and output differ in shape";
}

const et_kernel et_dim_order_to_copy = {"dim_order_ops::_to_dim_order_copy", "out",
                                        "native_call__to_dim_order_copy.out", 4, dim_order_copy};
const et_kernel et_dim_order_clone = {"dim_order_ops::_clone_dim_order", "out",
                                      "native_call__clone_dim_order.out", 4, dim_order_copy};
