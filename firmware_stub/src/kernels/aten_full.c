#include "kernels.h"
#include "number.h"

/* Fills the output with a scalar argument. */
static const char *fill(const et_call *call, uint32_t value_at, const et_tensor *out) {
    et_number value;
    if (!et_is_numeric(out) || !et_arg_scalar(call, value_at, &value)) {
        return "value or type of the output";
    }
    const uint32_t numel = et_numel(out);
    for (uint32_t i = 0; i < numel; i++) {
        et_store_number(out, i, value);
    }
    return NULL;
}

/* scalar_tensor(s, *, out) */
static const char *scalar_tensor(const et_call *call) {
    et_tensor *out = et_arg_out(call, 1);
    return out != NULL && et_resize(out, out->sizes, 0) ? fill(call, 0, out) : "output size";
}

/* full(size, fill_value, *, out) */
static const char *full(const et_call *call) {
    et_tensor *out = et_arg_out(call, 2);
    const uint32_t ndim = et_arg_list_count(call, 0);
    int32_t sizes[ET_MAX_DIMS];
    for (uint32_t d = 0; d < ndim; d++) {
        if (d >= ET_MAX_DIMS || !et_arg_list_int(call, 0, d, 0, INT32_MAX, &sizes[d])) {
            return "size";
        }
    }
    return out != NULL && et_resize(out, sizes, ndim) ? fill(call, 1, out) : "output size";
}

/* full_like(self, fill_value, memory_format?, *, out) */
static const char *full_like(const et_call *call) {
    const et_tensor *self = et_arg_tensor(call, 0);
    et_tensor *out = et_arg_out(call, 3);
    return self != NULL && out != NULL && et_resize_like(out, self) ? fill(call, 1, out) : "output size";
}

const et_kernel et_aten_scalar_tensor = {"aten::scalar_tensor", "out", "native_call_scalar_tensor.out", 2,
                                         scalar_tensor};
const et_kernel et_aten_full = {"aten::full", "out", "native_call_full.out", 3, full};
const et_kernel et_aten_full_like = {"aten::full_like", "out", "native_call_full_like.out", 4, full_like};
