// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/number.h"

/* Copies the input to an output that already has the requested order and type. */
static const char *copy_to(const etd_call *call, uint32_t out_at) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, out_at);
    if (!etd_is_numeric(input) || !etd_is_numeric(out)) {
        return "invalid type of input or output";
    }
    return etd_resize_like(out, input) && etd_assign(input, out) ? NULL : "input and output differ in shape";
}

/* _to_dim_order_copy and _clone_dim_order(input, *, non_blocking, dim_order?, out), and
 * _to_copy(input, *, non_blocking, memory_format?, out) */
static const char *copy_converted(const etd_call *call) {
    return copy_to(call, 3);
}

/* clone(input, *, memory_format?, out) */
static const char *clone(const etd_call *call) {
    return copy_to(call, 2);
}

/* alias_copy, detach_copy and lift_fresh_copy(input, *, out) */
static const char *copy_plain(const etd_call *call) {
    return copy_to(call, 1);
}

ETD_ATEN_KERNEL(alias_copy, "alias_copy", "out", 2, copy_plain)
ETD_ATEN_KERNEL(clone, "clone", "out", 3, clone)
ETD_ATEN_KERNEL(detach_copy, "detach_copy", "out", 2, copy_plain)
ETD_ATEN_KERNEL(lift_fresh_copy, "lift_fresh_copy", "out", 2, copy_plain)
ETD_ATEN_KERNEL(to_copy, "_to_copy", "out", 4, copy_converted)

const etd_kernel etd_dim_order_to_copy = {"dim_order_ops::_to_dim_order_copy", "out",
                                          "native_call__to_dim_order_copy.out", 4, copy_converted};
const etd_kernel etd_dim_order_clone = {"dim_order_ops::_clone_dim_order", "out",
                                        "native_call__clone_dim_order.out", 4, copy_converted};
