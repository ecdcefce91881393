#include "arguments.h"
#include "kernels.h"
#include "walk.h"

/* Each size is the output's, or -1: the input's, in a dimension that it has. */
static bool sizes_are_sound(const et_call *call, const et_tensor *input, const et_tensor *out) {
    if (et_arg_list_count(call, 1) != out->ndim) {
        return false;
    }
    for (uint32_t d = 0; d < out->ndim; d++) {
        int32_t size;
        if (!et_arg_list_int(call, 1, d, -1, INT32_MAX, &size) || (size >= 0 && size != out->sizes[d])) {
            return false;
        }
        const int32_t from = (int32_t)d + input->ndim - out->ndim;
        if (size < 0 && (from < 0 || input->sizes[from] != out->sizes[d])) {
            return false;
        }
    }
    return true;
}

/* expand_copy(input, size, *, implicit, out) */
static const char *expand_copy(const et_call *call) {
    const et_tensor *input = et_arg_tensor(call, 0);
    et_tensor *out = et_arg_out(call, 3);
    int32_t strides[ET_MAX_DIMS];
    et_walk from = {0};
    et_walk to = {0};
    if (input == NULL || !et_is_type(out, input->dtype)) {
        return "input and output differ in type";
    }
    if (!et_broadcast_strides(input, out, strides)) {
        return "input does not broadcast to the output";
    }
    if (!sizes_are_sound(call, input, out)) {
        return "size";
    }
    for (uint32_t d = 0; d < out->ndim; d++) {
        et_walk_add(&from, out->sizes[d], strides[d]);
    }
    et_walk_add_dims(&to, out, out->ndim);
    et_copy_along(input, &from, out, &to);
    return NULL;
}

const et_kernel et_aten_expand_copy = {"aten::expand_copy", "out", "native_call_expand_copy.out", 4,
                                       expand_copy};
