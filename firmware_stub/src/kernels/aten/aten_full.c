// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "../kernels.h"
#include "../support/number.h"

static const char *fill_with(const etd_tensor *out, etd_number value) {
    if (!etd_is_numeric(out)) {
        return "invalid type of the output";
    }
    etd_fill(out, value);
    return NULL;
}

/* Fills the output with a scalar argument. */
static const char *fill(const etd_call *call, uint32_t value_at, const etd_tensor *out) {
    etd_number value;
    return etd_arg_scalar(call, value_at, &value) ? fill_with(out, value) : "invalid value";
}

/* scalar_tensor(s, *, out) */
static const char *scalar_tensor(const etd_call *call) {
    etd_tensor *out = etd_arg_out(call, 1);
    return out != NULL && etd_resize(out, out->sizes, 0) ? fill(call, 0, out) : "invalid output size";
}

/* Resizes the output to the sizes in argument 0. */
static const char *resize_as_listed(const etd_call *call, etd_tensor *out) {
    const uint32_t ndim = etd_arg_list_count(call, 0);
    int32_t sizes[ETD_MAX_DIMS];
    for (uint32_t d = 0; d < ndim; d++) {
        if (d >= ETD_MAX_DIMS || !etd_arg_list_int(call, 0, d, 0, INT32_MAX, &sizes[d])) {
            return "invalid size";
        }
    }
    return out != NULL && etd_resize(out, sizes, ndim) ? NULL : "invalid output size";
}

/* full(size, fill_value, *, out) */
static const char *full(const etd_call *call) {
    etd_tensor *out = etd_arg_out(call, 2);
    const char *refusal = resize_as_listed(call, out);
    return refusal != NULL ? refusal : fill(call, 1, out);
}

/* full_like(self, fill_value, memory_format?, *, out) */
static const char *full_like(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 3);
    return self != NULL && out != NULL && etd_resize_like(out, self) ? fill(call, 1, out)
                                                                     : "invalid output size";
}

/* fill(self, value, *, out) */
static const char *fill_scalar(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 2);
    return self != NULL && etd_is_type(out, self->dtype) && etd_resize_like(out, self)
               ? fill(call, 1, out)
               : "invalid output size";
}

/* fill(self, value, *, out) with the only element of a tensor */
static const char *fill_tensor(const etd_call *call) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    const etd_tensor *value = etd_arg_tensor(call, 1);
    etd_tensor *out = etd_arg_out(call, 2);
    if (!etd_is_numeric(value) || etd_numel(value) != 1) {
        return "invalid value";
    }
    return self != NULL && etd_is_type(out, self->dtype) && etd_resize_like(out, self)
               ? fill_with(out, etd_load_number(value, 0))
               : "invalid output size";
}

/* zeros(size, *, out) */
static const char *zeros(const etd_call *call) {
    etd_tensor *out = etd_arg_out(call, 1);
    const char *refusal = resize_as_listed(call, out);
    return refusal != NULL ? refusal : fill_with(out, (etd_number){0});
}

/* ones(size, *, out) */
static const char *ones(const etd_call *call) {
    etd_tensor *out = etd_arg_out(call, 1);
    const char *refusal = resize_as_listed(call, out);
    return refusal != NULL ? refusal : fill_with(out, (etd_number){.integer = 1});
}

/* empty(size, *, memory_format?, out), and with dim_order? for memory_format?: filled with zeros, so that
 * every execution gives the same result */
static const char *empty(const etd_call *call) {
    etd_tensor *out = etd_arg_out(call, 2);
    const char *refusal = resize_as_listed(call, out);
    return refusal != NULL ? refusal : fill_with(out, (etd_number){0});
}

static etd_number step_number(etd_number start, etd_number step, uint32_t i) {
    etd_number number = {.is_real = start.is_real || step.is_real};
    number.real = etd_to_real(start) + (double)i * etd_to_real(step);
    number.integer = (int64_t)((uint64_t)start.integer + i * (uint64_t)step.integer);
    return number;
}

static const char *fill_steps(etd_tensor *out, etd_number start, etd_number end, etd_number step) {
    const double count = ceil((etd_to_real(end) - etd_to_real(start)) / etd_to_real(step));
    if (!(count >= 0.0 && count <= INT32_MAX)) { /* also false for NaN, such as for a step of 0 */
        return "invalid start, end or step";
    }
    const int32_t size = (int32_t)count;
    if (!etd_is_numeric(out) || !etd_resize(out, &size, 1)) {
        return "invalid type or size of the output";
    }
    for (uint32_t i = 0; i < (uint32_t)size; i++) {
        etd_store_number(out, i, step_number(start, step, i));
    }
    return NULL;
}

/* arange(start, end, step, *, out) */
static const char *arange_start(const etd_call *call) {
    etd_number start;
    etd_number end;
    etd_number step;
    if (!etd_arg_scalar(call, 0, &start) || !etd_arg_scalar(call, 1, &end) ||
        !etd_arg_scalar(call, 2, &step)) {
        return "invalid start, end or step";
    }
    return fill_steps(etd_arg_out(call, 3), start, end, step);
}

/* arange(end, *, out) */
static const char *arange(const etd_call *call) {
    etd_number end;
    return etd_arg_scalar(call, 0, &end)
               ? fill_steps(etd_arg_out(call, 1), (etd_number){0}, end, (etd_number){.integer = 1})
               : "invalid end";
}

ETD_ATEN_KERNEL(arange, "arange", "out", 2, arange)
ETD_ATEN_KERNEL(arange_start, "arange", "start_out", 4, arange_start)
ETD_ATEN_KERNEL(empty, "empty", "out", 3, empty)
ETD_ATEN_KERNEL(fill_tensor, "fill", "Tensor_out", 3, fill_tensor)
ETD_ATEN_KERNEL(fill, "fill", "Scalar_out", 3, fill_scalar)
ETD_ATEN_KERNEL(ones, "ones", "out", 2, ones)
ETD_ATEN_KERNEL(zeros, "zeros", "out", 2, zeros)

const etd_kernel etd_dim_order_empty = {"dim_order_ops::_empty_dim_order", "out",
                                        "native_call__empty_dim_order.out", 3, empty};
const etd_kernel etd_aten_scalar_tensor = {"aten::scalar_tensor", "out", "native_call_scalar_tensor.out", 2,
                                           scalar_tensor};
const etd_kernel etd_aten_full = {"aten::full", "out", "native_call_full.out", 3, full};
const etd_kernel etd_aten_full_like = {"aten::full_like", "out", "native_call_full_like.out", 4, full_like};
