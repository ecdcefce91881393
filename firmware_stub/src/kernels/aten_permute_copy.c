#include "arguments.h"
#include "kernels.h"
#include "walk.h"

/* permute_copy(input, dims, *, out) */
static const char *permute_copy(const et_call *call) {
    const et_tensor *input = et_arg_tensor(call, 0);
    et_tensor *out = et_arg_out(call, 2);
    uint8_t dims[ET_MAX_DIMS];
    uint8_t count;
    int32_t sizes[ET_MAX_DIMS];
    if (input == NULL || !et_is_type(out, input->dtype)) {
        return "input and output differ in type";
    }
    if (!et_arg_dims(call, 1, input->ndim, dims, &count) || count != input->ndim) {
        return "dims";
    }
    et_walk from = {0};
    et_walk to = {0};
    for (uint32_t d = 0; d < count; d++) {
        sizes[d] = input->sizes[dims[d]];
        et_walk_add(&from, input->sizes[dims[d]], input->strides[dims[d]]);
    }
    if (!et_resize(out, sizes, count)) {
        return "output size";
    }
    et_walk_add_dims(&to, out, out->ndim);
    et_copy_along(input, &from, out, &to);
    return NULL;
}

const et_kernel et_aten_permute_copy = {"aten::permute_copy", "out", "native_call_permute_copy.out", 3,
                                        permute_copy};

/* The same with another name for dims, for quantized tensors. */
const et_kernel et_cortex_m_transpose = {"cortex_m::transpose", "out", "native_call_transpose.out", 3,
                                         permute_copy};
