#include "elementwise.h"
#include "walk.h"

/* The tensors of a binary operation, how far each steps along the output's dimensions, and where it is. */
enum { A, B, OUT, TENSORS };

typedef struct {
    const et_tensor *tensors[TENSORS];
    int32_t strides[TENSORS][ET_MAX_DIMS];
    et_walk walks[TENSORS]; /* from line to line */
    et_line line;
} et_broadcast;

/* Whether each tensor goes on along dimension d where a line of `count` elements ends. */
static bool goes_on(const et_broadcast *broadcast, uint32_t d, uint32_t count, const uint32_t *steps) {
    for (uint32_t t = 0; t < TENSORS; t++) {
        if ((uint32_t)broadcast->strides[t][d] != count * steps[t]) {
            return false;
        }
    }
    return true;
}

/* Makes the line as long as the layouts allow, from the output's innermost dimension outwards, and the walks
 * of what is left. */
static void plan_lines(et_broadcast *broadcast) {
    const et_tensor *out = broadcast->tensors[OUT];
    uint32_t steps[TENSORS] = {0};
    uint32_t count = 1;
    uint32_t left = out->ndim;
    for (; left > 0; left--) {
        uint32_t d = out->dim_order[left - 1];
        if (out->sizes[d] == 1) {
            continue;
        }
        if (count == 1) {
            for (uint32_t t = 0; t < TENSORS; t++) {
                steps[t] = (uint32_t)broadcast->strides[t][d];
            }
        } else if (!goes_on(broadcast, d, count, steps)) {
            break;
        }
        count *= (uint32_t)out->sizes[d];
    }
    for (uint32_t t = 0; t < TENSORS; t++) {
        for (uint32_t i = 0; i < left; i++) {
            uint32_t d = out->dim_order[i];
            et_walk_add(&broadcast->walks[t], out->sizes[d], broadcast->strides[t][d]);
        }
    }
    broadcast->line.count = count;
    broadcast->line.a_step = steps[A];
    broadcast->line.b_step = steps[B];
    broadcast->line.out_step = steps[OUT];
}

static uint8_t *walked_to(const et_broadcast *broadcast, uint32_t tensor, uint32_t size) {
    return broadcast->tensors[tensor]->data + broadcast->walks[tensor].offset * size;
}

static void run_lines(et_broadcast *broadcast, et_line_fn compute, const et_alpha *alpha) {
    const uint32_t numel = et_numel(broadcast->tensors[OUT]);
    const uint32_t size = et_element_size(broadcast->tensors[A]->dtype);
    const uint32_t out_size = et_element_size(broadcast->tensors[OUT]->dtype);
    et_line *line = &broadcast->line;
    for (uint32_t done = 0; done < numel; done += line->count) {
        line->a = walked_to(broadcast, A, size);
        line->b = walked_to(broadcast, B, size);
        line->out = walked_to(broadcast, OUT, out_size);
        compute(line, alpha);
        for (uint32_t t = 0; t < TENSORS; t++) {
            et_walk_next(&broadcast->walks[t]);
        }
    }
}

static et_line_fn find_operation(const et_operation *operation, uint8_t dtype) {
    switch (dtype) {
    case ET_FLOAT:
        return operation->floats;
    case ET_INT:
        return operation->int32s;
    case ET_LONG:
        return operation->int64s;
    case ET_BOOL:
        return operation->bools;
    default:
        return NULL;
    }
}

/* An alpha with a fraction does not multiply integers. */
static bool read_alpha(const et_call *call, uint32_t i, uint8_t dtype, et_alpha *alpha) {
    double real;
    int64_t integer = 0;
    if (!et_arg_number(call, i, &real) || (dtype != ET_FLOAT && !et_arg_int64(call, i, &integer))) {
        return false;
    }
    *alpha = (et_alpha){(float)real, (uint64_t)integer};
    return true;
}

static const char *say_types(const et_operation *operation) {
    if (operation->bools != NULL) {
        return "only float32, int32, int64 and bool";
    }
    return operation->int32s != NULL ? "only float32, int32 and int64" : "only float32";
}

const char *et_run_operands(const et_call *call, const et_operation *operation, const et_tensor *self,
                            const et_tensor *other, uint32_t next) {
    et_alpha alpha = {1.0f, 1};
    et_tensor *out = et_arg_out(call, operation->has_alpha ? next + 1 : next);
    et_broadcast broadcast = {.tensors = {self, other, out}};
    if (self == NULL || !et_is_type(other, self->dtype) ||
        !et_is_type(out, operation->gives_truth ? ET_BOOL : self->dtype)) {
        return "an input or output of another type";
    }
    et_line_fn compute = find_operation(operation, self->dtype);
    if (compute == NULL) {
        return say_types(operation);
    }
    if (operation->has_alpha && !read_alpha(call, next, self->dtype, &alpha)) {
        return "alpha";
    }
    if (!et_resize_broadcast(out, self, other)) {
        return "inputs do not broadcast to the output";
    }
    for (uint32_t t = 0; t < TENSORS; t++) {
        (void)et_broadcast_strides(broadcast.tensors[t], out, broadcast.strides[t]);
    }
    plan_lines(&broadcast);
    run_lines(&broadcast, compute, &alpha);
    return NULL;
}

const char *et_run_unary(const et_call *call, const et_operation *operation) {
    const et_tensor *self = et_arg_tensor(call, 0);
    return et_run_operands(call, operation, self, self, 1);
}

const char *et_run_binary(const et_call *call, const et_operation *operation) {
    return et_run_operands(call, operation, et_arg_tensor(call, 0), et_arg_tensor(call, 1), 2);
}

/* An input and an output with elements in the same places. */
typedef struct {
    const float *x;
    float *y;
    uint32_t numel;
} et_mapping;

static const char *read_mapping(const et_call *call, uint32_t out_index, et_mapping *mapping) {
    const et_tensor *input = et_arg_tensor(call, 0);
    et_tensor *out = et_arg_out(call, out_index);
    if (!et_is_type(input, ET_FLOAT) || !et_is_type(out, ET_FLOAT)) {
        return "only float32";
    }
    if (!et_take_layout(out, input)) {
        return "input and output differ in shape or layout";
    }
    *mapping = (et_mapping){et_floats(input), et_out_floats(out), et_numel(out)};
    return NULL;
}

const char *et_run_map(const et_call *call, uint32_t out, et_map_fn map, float parameter) {
    et_mapping mapping;
    const char *refusal = read_mapping(call, out, &mapping);
    if (refusal != NULL) {
        return refusal;
    }
    for (uint32_t i = 0; i < mapping.numel; i++) {
        mapping.y[i] = map(mapping.x[i], parameter);
    }
    return NULL;
}

const char *et_run_clamp(const et_call *call, uint32_t out, float low, float high) {
    et_mapping mapping;
    const char *refusal = read_mapping(call, out, &mapping);
    if (refusal != NULL) {
        return refusal;
    }
    for (uint32_t i = 0; i < mapping.numel; i++) {
        const float x = mapping.x[i];
        const float raised = x < low ? low : x; /* NaN is not less */
        mapping.y[i] = raised > high ? high : raised;
    }
    return NULL;
}
