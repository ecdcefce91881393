// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"
#include "number.h"

/* _to_dim_order_copy and _clone_dim_order(input, *, non_blocking, dim_order?, out): the output tensor already
 * has the requested order and type. */
static const char *dim_order_copy(const etd_call *call) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 3);
    if (!etd_is_numeric(input) || !etd_is_numeric(out)) {
        return "invalid type of input or output";
    }
    return etd_resize_like(out, input) && etd_assign(input, out) ? NULL : "input and output differ in shape";
}

const etd_kernel etd_dim_order_to_copy = {"dim_order_ops::_to_dim_order_copy", "out",
                                          "native_call__to_dim_order_copy.out", 4, dim_order_copy};
const etd_kernel etd_dim_order_clone = {"dim_order_ops::_clone_dim_order", "out",
                                        "native_call__clone_dim_order.out", 4, dim_order_copy};
