// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/elementwise.h"
#include "../support/number.h"
#include "../support/walk.h"

/* clamp(input, min?, max?, *, out), and hardtanh(input, min_val, max_val, *, out), whose bounds are
 * required */
static const char *clamp(const etd_call *call) {
    etd_number bounds[2];
    const etd_number *given[2] = {NULL, NULL};
    for (uint32_t b = 0; b < 2; b++) {
        if (etd_arg_is_none(call, 1 + b)) {
            continue;
        }
        if (!etd_arg_scalar(call, 1 + b, &bounds[b])) {
            return "invalid min or max";
        }
        given[b] = &bounds[b];
    }
    return etd_run_clamp(call, 3, given[0], given[1]);
}

/* Tensors of clamp with tensors as bounds; bounds may be absent. */
enum { SELF, LOW, HIGH, OUT, TENSORS };

/* Reads the tensors and resizes the output. Returns NULL, or a message if not supported. */
static const char *read_tensors(const etd_call *call, const etd_tensor *tensors[TENSORS]) {
    etd_tensor *out = etd_arg_out(call, OUT);
    etd_tensor shape = {0};
    if (!etd_is_numeric(out)) {
        return "invalid type of the output";
    }
    for (uint32_t t = SELF; t <= HIGH; t++) {
        tensors[t] = etd_arg_tensor(call, t);
        if (t != SELF && etd_arg_is_none(call, t)) {
            continue;
        }
        if (!etd_is_type(tensors[t], out->dtype)) {
            return "inputs and output differ in type";
        }
        if (!etd_broadcast_shape(&shape, tensors[t])) {
            return "inputs do not broadcast to each other";
        }
    }
    tensors[OUT] = out;
    return etd_resize_like(out, &shape) ? NULL : "invalid output size";
}

/* clamp(self, min?, max?, *, out) with tensors as bounds */
static const char *clamp_by_tensors(const etd_call *call) {
    const etd_tensor *tensors[TENSORS];
    etd_walk walks[TENSORS] = {0};
    const char *refusal = read_tensors(call, tensors);
    if (refusal != NULL) {
        return refusal;
    }
    const etd_tensor *out = tensors[OUT];
    for (uint32_t t = SELF; t < TENSORS; t++) {
        walks[t] = tensors[t] != NULL ? etd_walk_broadcast(tensors[t], out) : walks[t];
    }
    for (uint32_t left = etd_numel(out); left > 0; left--) {
        etd_number number = etd_load_number(tensors[SELF], walks[SELF].offset);
        for (uint32_t t = LOW; t <= HIGH; t++) {
            if (tensors[t] != NULL) {
                number = etd_limit(number, etd_load_number(tensors[t], walks[t].offset), t == HIGH);
            }
        }
        etd_store_number(out, walks[OUT].offset, number);
        for (uint32_t t = SELF; t < TENSORS; t++) {
            etd_walk_next(&walks[t]);
        }
    }
    return NULL;
}

ETD_ATEN_KERNEL(clamp_by_tensors, "clamp", "Tensor_out", 4, clamp_by_tensors)

const etd_kernel etd_aten_clamp = {"aten::clamp", "out", "native_call_clamp.out", 4, clamp};
const etd_kernel etd_aten_hardtanh = {"aten::hardtanh", "out", "native_call_hardtanh.out", 4, clamp};
