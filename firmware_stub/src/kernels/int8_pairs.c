#include "int8_pairs.h"

#include "walk.h"

const char *et_read_int8_pairs(const et_call *call, uint32_t a, uint32_t b, uint32_t out,
                               et_int8_pairs *pairs) {
    pairs->a = et_arg_tensor(call, a);
    pairs->b = et_arg_tensor(call, b);
    pairs->out = et_arg_out(call, out);
    if (!et_is_type(pairs->a, ET_CHAR) || !et_is_type(pairs->b, ET_CHAR) ||
        !et_is_type(pairs->out, ET_CHAR)) {
        return "only int8";
    }
    if (!et_resize_broadcast(pairs->out, pairs->a, pairs->b)) {
        return "inputs do not broadcast to the output";
    }
    (void)et_broadcast_strides(pairs->a, pairs->out, pairs->a_strides);
    (void)et_broadcast_strides(pairs->b, pairs->out, pairs->b_strides);
    return NULL;
}

static void map_broadcast(const et_int8_pairs *pairs, et_pair_fn compute, const void *context) {
    const et_tensor *out = pairs->out;
    et_walk a = {0};
    et_walk b = {0};
    et_walk to = {0};
    et_walk_add_dims(&to, out, out->ndim);
    for (uint32_t d = 0; d < out->ndim; d++) {
        et_walk_add(&a, out->sizes[d], pairs->a_strides[d]);
        et_walk_add(&b, out->sizes[d], pairs->b_strides[d]);
    }
    for (uint32_t i = et_numel(out); i > 0; i--) {
        et_out_int8s(out)[to.offset] =
            compute(context, et_int8s(pairs->a)[a.offset], et_int8s(pairs->b)[b.offset]);
        et_walk_next(&a);
        et_walk_next(&b);
        et_walk_next(&to);
    }
}

void et_map_int8_pairs(const et_int8_pairs *pairs, et_pair_fn compute, const void *context) {
    if (!et_same_layout(pairs->a, pairs->out) || !et_same_layout(pairs->b, pairs->out)) {
        map_broadcast(pairs, compute, context);
        return;
    }
    /* The usual case needs no walks: elements go together in the order of memory. */
    const int8_t *a = et_int8s(pairs->a);
    const int8_t *b = et_int8s(pairs->b);
    int8_t *y = et_out_int8s(pairs->out);
    const uint32_t numel = et_numel(pairs->out);
    for (uint32_t i = 0; i < numel; i++) {
        y[i] = compute(context, a[i], b[i]);
    }
}
