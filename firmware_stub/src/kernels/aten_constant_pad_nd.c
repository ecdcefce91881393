#include "kernels.h"
#include "number.h"
#include "walk.h"

/* Limit of a pad: keeps sums of sizes far from overflow. */
#define MAX_PAD (1 << 20)

/* The pads before and after dimension d; pairs in the list begin with the last dimension. */
static bool read_pads(const et_call *call, const et_tensor *input, uint32_t d, int32_t pads[2]) {
    const uint32_t item = 2u * (input->ndim - 1u - d);
    pads[0] = pads[1] = 0;
    return item >= et_arg_list_count(call, 1) ||
           (et_arg_list_int(call, 1, item, -MAX_PAD, MAX_PAD, &pads[0]) &&
            et_arg_list_int(call, 1, item + 1, -MAX_PAD, MAX_PAD, &pads[1]));
}

static int32_t cut(int32_t pad) {
    return pad < 0 ? -pad : 0;
}

/* Plans the copy of what is left of the input when negative pads have cut it. */
static const char *plan_walks(const et_call *call, const et_tensor *input, et_tensor *out, et_walk *from,
                              et_walk *to) {
    int32_t sizes[ET_MAX_DIMS];
    for (uint32_t d = 0; d < input->ndim; d++) {
        int32_t pads[2];
        if (!read_pads(call, input, d, pads)) {
            return "pad";
        }
        const int64_t size = (int64_t)input->sizes[d] + pads[0] + pads[1];
        if (size < 0 || size > INT32_MAX || input->sizes[d] - cut(pads[0]) - cut(pads[1]) < 0) {
            return "output size";
        }
        sizes[d] = (int32_t)size;
    }
    if (!et_resize(out, sizes, input->ndim)) {
        return "output size";
    }
    for (uint32_t d = 0; d < input->ndim; d++) {
        int32_t pads[2];
        (void)read_pads(call, input, d, pads);
        const int32_t kept = input->sizes[d] - cut(pads[0]) - cut(pads[1]);
        from->offset += (uint32_t)cut(pads[0]) * (uint32_t)input->strides[d];
        to->offset += (uint32_t)(pads[0] > 0 ? pads[0] : 0) * (uint32_t)out->strides[d];
        et_walk_add(from, kept, input->strides[d]);
        et_walk_add(to, kept, out->strides[d]);
    }
    return NULL;
}

/* constant_pad_nd(input, pad, value, *, out) */
static const char *constant_pad_nd(const et_call *call) {
    const et_tensor *input = et_arg_tensor(call, 0);
    et_tensor *out = et_arg_out(call, 3);
    const uint32_t pads = et_arg_list_count(call, 1);
    et_number value = {0};
    et_walk from = {0};
    et_walk to = {0};
    if (!et_is_numeric(input) || !et_is_type(out, input->dtype)) {
        return "input and output differ in type";
    }
    if (pads % 2 != 0 || pads > 2u * input->ndim || out->ndim != input->ndim) {
        return "pad";
    }
    if (!et_arg_scalar(call, 2, &value)) {
        return "value";
    }
    const char *refusal = plan_walks(call, input, out, &from, &to);
    if (refusal != NULL) {
        return refusal;
    }
    const uint32_t numel = et_numel(out);
    for (uint32_t i = 0; i < numel; i++) {
        et_store_number(out, i, value);
    }
    et_copy_along(input, &from, out, &to);
    return NULL;
}

const et_kernel et_aten_constant_pad_nd = {"aten::constant_pad_nd", "out", "native_call_constant_pad_nd.out",
                                           4, constant_pad_nd};
