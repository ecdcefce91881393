// SPDX-License-Identifier: Apache-2.0
#include "int8_pairs.h"

#include "walk.h"

const char *etd_read_int8_pairs(const etd_call *call, uint32_t a, uint32_t b, uint32_t out,
                                etd_int8_pairs *pairs) {
    pairs->a = etd_arg_tensor(call, a);
    pairs->b = etd_arg_tensor(call, b);
    pairs->out = etd_arg_out(call, out);
    if (!etd_is_type(pairs->a, ETD_CHAR) || !etd_is_type(pairs->b, ETD_CHAR) ||
        !etd_is_type(pairs->out, ETD_CHAR)) {
        return "supports only int8";
    }
    if (!etd_resize_broadcast(pairs->out, pairs->a, pairs->b)) {
        return "inputs do not broadcast to the output";
    }
    (void)etd_broadcast_strides(pairs->a, pairs->out, pairs->a_strides);
    (void)etd_broadcast_strides(pairs->b, pairs->out, pairs->b_strides);
    return NULL;
}

static void map_broadcast(const etd_int8_pairs *pairs, etd_pair_fn compute, const void *context) {
    const etd_tensor *out = pairs->out;
    etd_walk a = {0};
    etd_walk b = {0};
    etd_walk to = {0};
    etd_walk_add_dims(&to, out, out->ndim);
    for (uint32_t d = 0; d < out->ndim; d++) {
        etd_walk_add(&a, out->sizes[d], pairs->a_strides[d]);
        etd_walk_add(&b, out->sizes[d], pairs->b_strides[d]);
    }
    for (uint32_t i = etd_numel(out); i > 0; i--) {
        etd_out_int8s(out)[to.offset] =
            compute(context, etd_int8s(pairs->a)[a.offset], etd_int8s(pairs->b)[b.offset]);
        etd_walk_next(&a);
        etd_walk_next(&b);
        etd_walk_next(&to);
    }
}

bool etd_have_one_layout(const etd_int8_pairs *pairs) {
    return etd_same_layout(pairs->a, pairs->out) && etd_same_layout(pairs->b, pairs->out);
}

void etd_map_int8_pairs(const etd_int8_pairs *pairs, etd_pair_fn compute, const void *context) {
    if (!etd_have_one_layout(pairs)) {
        map_broadcast(pairs, compute, context);
        return;
    }
    /* The usual case needs no walks: all tensors have the same layout. */
    const int8_t *a = etd_int8s(pairs->a);
    const int8_t *b = etd_int8s(pairs->b);
    int8_t *y = etd_out_int8s(pairs->out);
    const uint32_t numel = etd_numel(pairs->out);
    for (uint32_t i = 0; i < numel; i++) {
        y[i] = compute(context, a[i], b[i]);
    }
}
