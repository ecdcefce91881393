// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"
#include "number.h"

/* Fills the output with a scalar argument. */
static const char *fill(const etd_call *call, uint32_t value_at, const etd_tensor *out) {
    etd_number value;
    if (!etd_is_numeric(out) || !etd_arg_scalar(call, value_at, &value)) {
        return "invalid value or type of the output";
    }
    const uint32_t numel = etd_numel(out);
    for (uint32_t i = 0; i < numel; i++) {
        etd_store_number(out, i, value);
    }
    return NULL;
}

/* scalar_tensor(s, *, out) */
static const char *scalar_tensor(const etd_call *call) {
    etd_tensor *out = etd_arg_out(call, 1);
    return out != NULL && etd_resize(out, out->sizes, 0) ? fill(call, 0, out) : "invalid output size";
}

/* full(size, fill_value, *, out) */
static const char *full(const etd_call *call) {
    etd_tensor *out = etd_arg_out(call, 2);
    const uint32_t ndim = etd_arg_list_count(call, 0);
    int32_t sizes[ETD_MAX_DIMS];
    for (uint32_t d = 0; d < ndim; d++) {
        if (d >= ETD_MAX_DIMS || !etd_arg_list_int(call, 0, d, 0, INT32_MAX, &sizes[d])) {
            return "invalid size";
        }
    }
    return out != NULL && etd_resize(out, sizes, ndim) ? fill(call, 1, out) : "invalid output size";
}

/* full_like(self, fill_value, memory_format?, *, out) */
static const char *full_like(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 3);
    return self != NULL && out != NULL && etd_resize_like(out, self) ? fill(call, 1, out)
                                                                     : "invalid output size";
}

const etd_kernel etd_aten_scalar_tensor = {"aten::scalar_tensor", "out", "native_call_scalar_tensor.out", 2,
                                           scalar_tensor};
const etd_kernel etd_aten_full = {"aten::full", "out", "native_call_full.out", 3, full};
const etd_kernel etd_aten_full_like = {"aten::full_like", "out", "native_call_full_like.out", 4, full_like};
