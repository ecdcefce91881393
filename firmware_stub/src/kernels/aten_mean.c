#include "arguments.h"
#include "kernels.h"
#include "walk.h"

/* Which dimensions to average over, as a set; without a list, or with an empty one, all. */
static bool read_reduced(const et_call *call, uint8_t ndim, uint32_t *reduced) {
    uint8_t dims[ET_MAX_DIMS];
    uint8_t count = 0;
    if (!et_arg_is_none(call, 1) && !et_arg_dims(call, 1, ndim, dims, &count)) {
        return false;
    }
    *reduced = count == 0 ? (1u << ndim) - 1u : 0;
    for (uint32_t i = 0; i < count; i++) {
        *reduced |= 1u << dims[i];
    }
    return true;
}

/* Adds each input dimension to the walk that it belongs to, and checks the output against them. */
static bool plan_walks(const et_tensor *input, const et_tensor *out, uint32_t reduced, bool keepdim,
                       et_walk *kept, et_walk *averaged) {
    uint8_t dim = 0; /* of the output */
    for (uint32_t d = 0; d < input->ndim; d++) {
        bool is_reduced = (reduced & (1u << d)) != 0;
        et_walk_add(is_reduced ? averaged : kept, input->sizes[d], input->strides[d]);
        if (!is_reduced || keepdim) {
            if (dim >= out->ndim || out->sizes[dim] != (is_reduced ? 1 : input->sizes[d])) {
                return false;
            }
            dim++;
        }
    }
    return dim == out->ndim;
}

/* mean.out(input, dim?, keepdim, dtype?, *, out) */
static const char *mean(const et_call *call) {
    const et_tensor *input = et_arg_tensor(call, 0);
    et_tensor *out = et_arg_out(call, 4);
    int32_t dtype = ET_FLOAT;
    bool keepdim;
    if (!et_is_type(input, ET_FLOAT) || !et_is_type(out, ET_FLOAT) || input->nbytes == 0 ||
        (!et_arg_is_none(call, 3) && !et_arg_int(call, 3, ET_FLOAT, ET_FLOAT, &dtype))) {
        return "only float32 that is not empty";
    }
    uint32_t reduced;
    et_walk kept = {0};
    et_walk averaged = {0};
    et_walk to = {0};
    if (!read_reduced(call, input->ndim, &reduced) || !et_arg_bool(call, 2, &keepdim)) {
        return "dim or keepdim";
    }
    if (!plan_walks(input, out, reduced, keepdim, &kept, &averaged)) {
        return "output size";
    }
    et_walk_add_dims(&to, out, out->ndim);
    uint32_t numel = et_numel(out);
    uint32_t count = et_numel(input) / numel;
    for (uint32_t i = 0; i < numel; i++) {
        const float *x = et_floats(input) + kept.offset;
        float sum = 0.0f;
        for (uint32_t k = 0; k < count; k++) {
            sum += x[averaged.offset];
            et_walk_next(&averaged);
        }
        et_out_floats(out)[to.offset] = sum / (float)count;
        et_walk_next(&kept);
        et_walk_next(&to);
    }
    return NULL;
}

const et_kernel et_aten_mean = {"aten::mean", "out", "native_call_mean.out", 5, mean};
