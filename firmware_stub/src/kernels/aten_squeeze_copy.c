#include "arguments.h"
#include "kernels.h"
#include "walk.h"

/* Copies between tensors whose sizes are the same but for dimensions of one element in the set `single` of
 * `longer`, the one of more dimensions. */
static const char *copy_singles(const et_tensor *input, et_tensor *out, const et_tensor *longer,
                                const et_tensor *shorter, uint32_t single) {
    uint32_t d = 0; /* of the shorter one */
    for (uint32_t i = 0; i < longer->ndim; i++) {
        if ((single & (1u << i)) != 0 && longer->sizes[i] == 1) {
            continue;
        }
        if (d >= shorter->ndim || shorter->sizes[d] != longer->sizes[i]) {
            return "output size";
        }
        d++;
    }
    if (d != shorter->ndim) {
        return "output size";
    }
    et_copy_in_order(input, out);
    return NULL;
}

static const char *read_tensors(const et_call *call, const et_tensor **input, et_tensor **out) {
    *input = et_arg_tensor(call, 0);
    *out = et_arg_out(call, 2);
    return *input == NULL || !et_is_type(*out, (*input)->dtype) ? "input and output differ in type" : NULL;
}

/* unsqueeze_copy(input, dim, *, out) */
static const char *unsqueeze(const et_call *call) {
    const et_tensor *input;
    et_tensor *out;
    uint8_t dim;
    const char *refusal = read_tensors(call, &input, &out);
    if (refusal != NULL) {
        return refusal;
    }
    if (out->ndim != input->ndim + 1u || !et_arg_dim(call, 1, out->ndim, &dim) || out->sizes[dim] != 1) {
        return "dim or output size";
    }
    return copy_singles(input, out, out, input, 1u << dim);
}

/* squeeze_copy(input, dim, *, out), where dim is one dimension or a list; those of more than one element
 * stay. */
static const char *squeeze(const et_call *call) {
    const et_tensor *input;
    et_tensor *out;
    uint8_t dims[ET_MAX_DIMS];
    uint8_t count = 1;
    uint32_t single = 0;
    const char *refusal = read_tensors(call, &input, &out);
    if (refusal != NULL) {
        return refusal;
    }
    if (!et_arg_dim(call, 1, input->ndim, &dims[0]) && !et_arg_dims(call, 1, input->ndim, dims, &count)) {
        return "dim";
    }
    for (uint32_t i = 0; i < count; i++) {
        single |= 1u << dims[i];
    }
    return copy_singles(input, out, input, out, single);
}

const et_kernel et_aten_unsqueeze_copy = {"aten::unsqueeze_copy", "out", "native_call_unsqueeze_copy.out", 3,
                                          unsqueeze};
const et_kernel et_aten_squeeze_copy_dims = {"aten::squeeze_copy", "dims_out",
                                             "native_call_squeeze_copy.dims_out", 3, squeeze};
const et_kernel et_aten_squeeze_copy_dim = {"aten::squeeze_copy", "dim_out",
                                            "native_call_squeeze_copy.dim_out", 3, squeeze};
