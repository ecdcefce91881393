#include "kernels.h"
#include "number.h"
#include "walk.h"

/* Converts each element from the input's type to the output's. */
static void convert(const et_tensor *input, const et_tensor *out) {
    const uint32_t numel = et_numel(out);
    et_walk from = {0};
    et_walk to = {0};
    et_walk_add_dims(&from, input, input->ndim);
    et_walk_add_dims(&to, out, out->ndim);
    for (uint32_t i = 0; i < numel; i++) {
        et_store_number(out, to.offset, et_load_number(input, from.offset));
        et_walk_next(&from);
        et_walk_next(&to);
    }
}

/* _to_dim_order_copy and _clone_dim_order(input, *, non_blocking, dim_order?, out): the output has the order
 * and the type. */
static const char *dim_order_copy(const et_call *call) {
    const et_tensor *input = et_arg_tensor(call, 0);
    et_tensor *out = et_arg_out(call, 3);
    if (!et_is_numeric(input) || !et_is_numeric(out)) {
        return "type of input or output";
    }
    if (!et_same_shape(input, out)) {
        return "input and output differ in shape";
    }
    if (input->dtype == out->dtype) {
        et_copy_in_order(input, out);
    } else {
        convert(input, out);
    }
    return NULL;
}

const et_kernel et_dim_order_to_copy = {"dim_order_ops::_to_dim_order_copy", "out",
                                        "native_call__to_dim_order_copy.out", 4, dim_order_copy};
const et_kernel et_dim_order_clone = {"dim_order_ops::_clone_dim_order", "out",
                                      "native_call__clone_dim_order.out", 4, dim_order_copy};
