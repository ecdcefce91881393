// SPDX-License-Identifier: Apache-2.0
#include "elementwise.h"
#include "walk.h"

/* Tensors of a binary operation, with strides along the output's dimensions and a position. */
enum { A, B, OUT, TENSORS };

typedef struct {
    const etd_tensor *tensors[TENSORS];
    int32_t strides[TENSORS][ETD_MAX_DIMS];
    etd_walk walks[TENSORS]; /* from line to line */
    etd_line line;
} etd_broadcast;

/* Returns true if each tensor continues along dimension d where a line of `count` elements ends. */
static bool continues_line(const etd_broadcast *broadcast, uint32_t d, uint32_t count,
                           const uint32_t *steps) {
    for (uint32_t t = 0; t < TENSORS; t++) {
        if ((uint32_t)broadcast->strides[t][d] != count * steps[t]) {
            return false;
        }
    }
    return true;
}

/* Makes lines as long as the layouts allow, starting with the output's innermost dimension, and walks over
 * the remaining dimensions. */
static void plan_lines(etd_broadcast *broadcast) {
    const etd_tensor *out = broadcast->tensors[OUT];
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
        } else if (!continues_line(broadcast, d, count, steps)) {
            break;
        }
        count *= (uint32_t)out->sizes[d];
    }
    for (uint32_t t = 0; t < TENSORS; t++) {
        for (uint32_t i = 0; i < left; i++) {
            uint32_t d = out->dim_order[i];
            etd_walk_add(&broadcast->walks[t], out->sizes[d], broadcast->strides[t][d]);
        }
    }
    broadcast->line.count = count;
    broadcast->line.a_step = steps[A];
    broadcast->line.b_step = steps[B];
    broadcast->line.out_step = steps[OUT];
}

static uint8_t *walked_to(const etd_broadcast *broadcast, uint32_t tensor, uint32_t size) {
    return broadcast->tensors[tensor]->data + broadcast->walks[tensor].offset * size;
}

static void run_lines(etd_broadcast *broadcast, etd_line_fn compute, const etd_alpha *alpha) {
    const uint32_t numel = etd_numel(broadcast->tensors[OUT]);
    const uint32_t size = etd_element_size(broadcast->tensors[A]->dtype);
    const uint32_t out_size = etd_element_size(broadcast->tensors[OUT]->dtype);
    etd_line *line = &broadcast->line;
    for (uint32_t done = 0; done < numel; done += line->count) {
        line->a = walked_to(broadcast, A, size);
        line->b = walked_to(broadcast, B, size);
        line->out = walked_to(broadcast, OUT, out_size);
        compute(line, alpha);
        for (uint32_t t = 0; t < TENSORS; t++) {
            etd_walk_next(&broadcast->walks[t]);
        }
    }
}

static etd_line_fn find_operation(const etd_operation *operation, uint8_t dtype) {
    switch (dtype) {
    case ETD_FLOAT:
        return operation->floats;
    case ETD_INT:
        return operation->int32s;
    case ETD_LONG:
        return operation->int64s;
    case ETD_BOOL:
        return operation->bools;
    case ETD_CHAR:
    case ETD_BYTE:
        return operation->bytes;
    default:
        return NULL;
    }
}

/* Reads alpha. For integers it must not have a fraction. */
static bool read_alpha(const etd_call *call, uint32_t i, uint8_t dtype, etd_alpha *alpha) {
    double real;
    int64_t integer = 0;
    if (!etd_arg_number(call, i, &real) || (dtype != ETD_FLOAT && !etd_arg_int64(call, i, &integer))) {
        return false;
    }
    *alpha = (etd_alpha){(float)real, (uint64_t)integer};
    return true;
}

static const char *unsupported_type(const etd_operation *operation) {
    if (operation->bytes != NULL) {
        return "supports only int8, uint8, int32, int64 and bool";
    }
    if (operation->bools != NULL) {
        return "supports only float32, int32, int64 and bool";
    }
    return operation->int32s != NULL ? "supports only float32, int32 and int64" : "supports only float32";
}

const char *etd_run_operands(const etd_call *call, const etd_operation *operation, const etd_tensor *self,
                             const etd_tensor *other, uint32_t next) {
    etd_alpha alpha = {1.0f, 1};
    etd_tensor *out = etd_arg_out(call, operation->has_alpha ? next + 1 : next);
    etd_broadcast broadcast = {.tensors = {self, other, out}};
    if (self == NULL || !etd_is_type(other, self->dtype) ||
        !etd_is_type(out, operation->gives_truth ? ETD_BOOL : self->dtype)) {
        return "inputs and output differ in type";
    }
    etd_line_fn compute = find_operation(operation, self->dtype);
    if (compute == NULL) {
        return unsupported_type(operation);
    }
    if (operation->has_alpha && !read_alpha(call, next, self->dtype, &alpha)) {
        return "invalid alpha";
    }
    if (!etd_resize_broadcast(out, self, other)) {
        return "inputs do not broadcast to the output";
    }
    for (uint32_t t = 0; t < TENSORS; t++) {
        (void)etd_broadcast_strides(broadcast.tensors[t], out, broadcast.strides[t]);
    }
    plan_lines(&broadcast);
    run_lines(&broadcast, compute, &alpha);
    return NULL;
}

const char *etd_run_unary(const etd_call *call, const etd_operation *operation) {
    const etd_tensor *self = etd_arg_tensor(call, 0);
    return etd_run_operands(call, operation, self, self, 1);
}

const char *etd_run_binary(const etd_call *call, const etd_operation *operation) {
    return etd_run_operands(call, operation, etd_arg_tensor(call, 0), etd_arg_tensor(call, 1), 2);
}

/* An input and an output with the same layout. */
typedef struct {
    const float *x;
    float *y;
    uint32_t numel;
} etd_mapping;

static const char *read_mapping(const etd_call *call, uint32_t out_index, etd_mapping *mapping) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, out_index);
    if (!etd_is_type(input, ETD_FLOAT) || !etd_is_type(out, ETD_FLOAT)) {
        return "supports only float32";
    }
    if (!etd_take_layout(out, input)) {
        return "input and output differ in shape or layout";
    }
    *mapping = (etd_mapping){etd_floats(input), etd_out_floats(out), etd_numel(out)};
    return NULL;
}

const char *etd_run_map(const etd_call *call, uint32_t out, etd_map_fn map, const float *parameters) {
    etd_mapping mapping;
    const char *refusal = read_mapping(call, out, &mapping);
    if (refusal != NULL) {
        return refusal;
    }
    for (uint32_t i = 0; i < mapping.numel; i++) {
        mapping.y[i] = map(mapping.x[i], parameters);
    }
    return NULL;
}

const char *etd_run_clamp(const etd_call *call, uint32_t out, float low, float high) {
    etd_mapping mapping;
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
