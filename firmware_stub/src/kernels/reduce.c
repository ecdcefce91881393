// SPDX-License-Identifier: Apache-2.0
#include "reduce.h"
#include "walk.h"

/* A reduction: the elements of each sum and the output. */
typedef struct {
    const etd_tensor *input;
    etd_tensor *out;
    uint32_t reduced; /* set of dimensions to sum over */
    bool keepdim;     /* keep them with size 1 */
    etd_walk from;    /* input position of each output element */
    etd_walk summed;  /* elements of one sum */
} etd_reduction;

static const char *read_tensors(const etd_call *call, uint32_t dtype_at, etd_reduction *reduction) {
    int32_t dtype;
    reduction->input = etd_arg_tensor(call, 0);
    reduction->out = etd_arg_out(call, dtype_at + 1);
    if (!etd_is_type(reduction->input, ETD_FLOAT) || !etd_is_type(reduction->out, ETD_FLOAT) ||
        reduction->input->nbytes == 0 ||
        (!etd_arg_is_none(call, dtype_at) && !etd_arg_int(call, dtype_at, ETD_FLOAT, ETD_FLOAT, &dtype))) {
        return "supports only float32 that is not empty";
    }
    reduction->reduced = (1u << reduction->input->ndim) - 1u;
    return NULL;
}

/* Adds each input dimension to its walk and resizes the output. */
static bool plan_walks(etd_reduction *reduction) {
    const etd_tensor *input = reduction->input;
    int32_t sizes[ETD_MAX_DIMS];
    uint8_t dim = 0; /* of the output */
    for (uint32_t d = 0; d < input->ndim; d++) {
        const bool is_reduced = (reduction->reduced & (1u << d)) != 0;
        etd_walk_add(is_reduced ? &reduction->summed : &reduction->from, input->sizes[d], input->strides[d]);
        if (!is_reduced || reduction->keepdim) {
            sizes[dim++] = is_reduced ? 1 : input->sizes[d];
        }
    }
    return etd_resize(reduction->out, sizes, dim);
}

static const char *reduce(etd_reduction *reduction, bool average) {
    etd_walk to = {0};
    if (!plan_walks(reduction)) {
        return "invalid output size";
    }
    etd_walk_add_dims(&to, reduction->out, reduction->out->ndim);
    const uint32_t numel = etd_numel(reduction->out);
    const uint32_t count = etd_numel(reduction->input) / numel;
    for (uint32_t i = 0; i < numel; i++) {
        const float *x = etd_floats(reduction->input) + reduction->from.offset;
        float sum = 0.0f;
        for (uint32_t k = 0; k < count; k++) {
            sum += x[reduction->summed.offset];
            etd_walk_next(&reduction->summed);
        }
        etd_out_floats(reduction->out)[to.offset] = average ? sum / (float)count : sum;
        etd_walk_next(&reduction->from);
        etd_walk_next(&to);
    }
    return NULL;
}

const char *etd_run_reduction(const etd_call *call, bool average) {
    etd_reduction reduction = {0};
    uint8_t dims[ETD_MAX_DIMS];
    uint8_t count = 0;
    const char *refusal = read_tensors(call, 3, &reduction);
    if (refusal != NULL) {
        return refusal;
    }
    if ((!etd_arg_is_none(call, 1) && !etd_arg_dims(call, 1, reduction.input->ndim, dims, &count)) ||
        !etd_arg_bool(call, 2, &reduction.keepdim)) {
        return "invalid dim or keepdim";
    }
    if (count > 0) {
        reduction.reduced = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        reduction.reduced |= 1u << dims[i];
    }
    return reduce(&reduction, average);
}

const char *etd_run_mean_of_all(const etd_call *call) {
    etd_reduction reduction = {0};
    const char *refusal = read_tensors(call, 1, &reduction);
    return refusal != NULL ? refusal : reduce(&reduction, true);
}
