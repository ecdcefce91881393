// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/elementwise.h"

/* where(condition, self, other, *, out) */
static const char *where(const etd_call *call) {
    const etd_tensor *condition = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 3);
    etd_tensor shape = {0};
    if (!etd_is_type(condition, ETD_BOOL) && !etd_is_type(condition, ETD_BYTE)) {
        return "supports only bool and uint8 as the condition";
    }
    for (uint32_t i = 1; i <= 2; i++) {
        const etd_tensor *input = etd_arg_tensor(call, i);
        if (!etd_is_numeric(input) || !etd_is_numeric(out) || !etd_can_cast(input->dtype, out->dtype)) {
            return "invalid type of input or output";
        }
    }
    for (uint32_t i = 0; i <= 2; i++) {
        if (!etd_broadcast_shape(&shape, etd_arg_tensor(call, i))) {
            return "inputs do not broadcast to the output";
        }
    }
    if (!etd_resize_like(out, &shape)) {
        return "invalid output size";
    }
    (void)etd_assign(etd_arg_tensor(call, 2), out);
    etd_put_where(etd_arg_tensor(call, 1), condition, out);
    return NULL;
}

const etd_kernel etd_aten_where = {"aten::where", "self_out", "native_call_where.self_out", 4, where};
