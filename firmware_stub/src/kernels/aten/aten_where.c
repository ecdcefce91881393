// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "../kernels.h"
#include "../support/number.h"
#include "../support/walk.h"

enum { CONDITION, SELF, OTHER, OUT, TENSORS };

/* Resizes the output to the shape that condition, self and other broadcast to. */
static bool resize(etd_tensor *out, const etd_tensor *const *tensors) {
    int32_t sizes[ETD_MAX_DIMS];
    const uint32_t ndim = out->ndim;
    for (uint32_t d = 0; d < ndim; d++) {
        sizes[d] = 1;
        for (uint32_t t = CONDITION; t <= OTHER; t++) {
            const uint32_t added = ndim - tensors[t]->ndim;
            const int32_t size = tensors[t]->ndim > ndim || d < added ? 1 : tensors[t]->sizes[d - added];
            sizes[d] = size == 1 ? sizes[d] : size;
        }
    }
    return etd_resize(out, sizes, ndim);
}

/* where(condition, self, other, *, out) */
static const char *where(const etd_call *call) {
    etd_tensor *out = etd_arg_out(call, OUT);
    const etd_tensor *tensors[TENSORS] = {etd_arg_tensor(call, CONDITION), etd_arg_tensor(call, SELF),
                                          etd_arg_tensor(call, OTHER), out};
    etd_walk walks[TENSORS] = {0};
    if (!etd_is_type(tensors[CONDITION], ETD_BOOL) && !etd_is_type(tensors[CONDITION], ETD_BYTE)) {
        return "supports only bool and uint8 as the condition";
    }
    for (uint32_t t = SELF; t < TENSORS; t++) {
        if (!etd_is_numeric(tensors[t]) || !etd_is_numeric(out) ||
            !etd_can_cast(tensors[t]->dtype, out->dtype)) {
            return "invalid type of input or output";
        }
    }
    if (!resize(out, tensors)) {
        return "invalid output size";
    }
    for (uint32_t t = 0; t < TENSORS; t++) {
        int32_t strides[ETD_MAX_DIMS];
        if (!etd_broadcast_strides(tensors[t], out, strides)) {
            return "inputs do not broadcast to the output";
        }
        for (uint32_t d = 0; d < out->ndim; d++) {
            etd_walk_add(&walks[t], out->sizes[d], strides[d]);
        }
    }
    const uint32_t size = etd_element_size(out->dtype);
    for (uint32_t i = etd_numel(out); i > 0; i--) {
        const bool holds = tensors[CONDITION]->data[walks[CONDITION].offset] != 0;
        const uint32_t chosen = holds ? SELF : OTHER;
        const etd_tensor *from = tensors[chosen];
        if (from->dtype == out->dtype) {
            memmove(out->data + walks[OUT].offset * size, from->data + walks[chosen].offset * size, size);
        } else {
            etd_store_number(out, walks[OUT].offset, etd_load_number(from, walks[chosen].offset));
        }
        for (uint32_t t = 0; t < TENSORS; t++) {
            etd_walk_next(&walks[t]);
        }
    }
    return NULL;
}

const etd_kernel etd_aten_where = {"aten::where", "self_out", "native_call_where.self_out", 4, where};
