// SPDX-License-Identifier: Apache-2.0
#include "elementwise.h"

#include <math.h>
#include <string.h>

#include "int8_pairs.h"
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

static void next_line(etd_broadcast *broadcast) {
    for (uint32_t t = 0; t < TENSORS; t++) {
        etd_walk_next(&broadcast->walks[t]);
    }
}

/* Plans lines over tensors that broadcast to the output. */
static void start_lines(etd_broadcast *broadcast) {
    const etd_tensor *out = broadcast->tensors[OUT];
    for (uint32_t t = 0; t < TENSORS; t++) {
        (void)etd_broadcast_strides(broadcast->tensors[t], out, broadcast->strides[t]);
    }
    plan_lines(broadcast);
}

void etd_run_lines(const etd_tensor *a, const etd_tensor *b, etd_tensor *out, etd_line_fn compute,
                   const void *context) {
    etd_broadcast broadcast = {.tensors = {a, b, out}};
    etd_line *line = &broadcast.line;
    uint32_t sizes[TENSORS];
    start_lines(&broadcast);
    for (uint32_t t = 0; t < TENSORS; t++) {
        sizes[t] = etd_element_size(broadcast.tensors[t]->dtype);
    }
    const uint32_t numel = etd_numel(out);
    for (uint32_t done = 0; done < numel; done += line->count) {
        line->a = walked_to(&broadcast, A, sizes[A]);
        line->b = walked_to(&broadcast, B, sizes[B]);
        line->out = walked_to(&broadcast, OUT, sizes[OUT]);
        compute(line, context);
        next_line(&broadcast);
    }
}

/* Puts elements of `a` where `b` holds. The context are the types of `a` and of the output. */
static void put_line(const etd_line *line, const void *context) {
    const uint8_t *types = context;
    const etd_tensor from = {.data = (uint8_t *)line->a, .dtype = types[0]};
    const etd_tensor to = {.data = line->out, .dtype = types[1]};
    const uint32_t size = etd_element_size(types[1]);
    for (uint32_t i = 0; i < line->count; i++) {
        if (line->b[i * line->b_step] == 0) {
            continue;
        }
        const uint32_t from_place = i * line->a_step;
        const uint32_t to_place = i * line->out_step;
        if (types[0] != types[1]) {
            etd_store_number(&to, to_place, etd_load_number(&from, from_place));
        } else if (size == sizeof(uint32_t)) {
            ((uint32_t *)(void *)to.data)[to_place] = ((const uint32_t *)(const void *)from.data)[from_place];
        } else {
            memmove(to.data + to_place * size, from.data + from_place * size, size);
        }
    }
}

void etd_put_where(const etd_tensor *from, const etd_tensor *mask, etd_tensor *out) {
    const uint8_t types[] = {from->dtype, out->dtype};
    etd_run_lines(from, mask, out, put_line, types);
}

/* As etd_run_lines, for operands of other types than that of the computation: a few elements at a time are
 * converted, computed, and converted to the type of the output. */
static void run_converted(const etd_tensor *a, const etd_tensor *b, etd_tensor *out, etd_line_fn compute,
                          const etd_alpha *alpha, const uint8_t types[TENSORS]) {
    etd_broadcast planned = {.tensors = {a, b, out}};
    etd_broadcast *broadcast = &planned;
    start_lines(broadcast);
    _Alignas(8) uint8_t elements[TENSORS][8 * ETD_NUMBERS];
    const etd_line whole = broadcast->line;
    const uint32_t steps[TENSORS] = {whole.a_step, whole.b_step, whole.out_step};
    etd_line line = {elements[A], elements[B], elements[OUT], 0, 1, 1, 1};
    etd_tensor staged[TENSORS] = {0};
    etd_numbers numbers;
    for (uint32_t t = 0; t < TENSORS; t++) {
        staged[t].data = elements[t];
        staged[t].dtype = types[t];
    }
    const uint32_t numel = etd_numel(broadcast->tensors[OUT]);
    for (uint32_t lines = 0; lines < numel; lines += whole.count) {
        for (uint32_t done = 0; done < whole.count; done += line.count) {
            for (uint32_t t = A; t < OUT; t++) {
                etd_load_numbers(broadcast->tensors[t], broadcast->walks[t].offset + done * steps[t],
                                 (int32_t)steps[t], whole.count - done, &numbers);
                etd_store_numbers(&staged[t], 0, 1, &numbers);
            }
            line.count = numbers.count;
            compute(&line, alpha);
            etd_load_numbers(&staged[OUT], 0, 1, line.count, &numbers);
            etd_store_numbers(broadcast->tensors[OUT], broadcast->walks[OUT].offset + done * steps[OUT],
                              (int32_t)steps[OUT], &numbers);
        }
        next_line(broadcast);
    }
}

static etd_line_fn find_operation(const etd_operation *operation, uint8_t dtype) {
    switch (dtype) {
    case ETD_FLOAT:
        return operation->floats;
    case ETD_DOUBLE:
        return operation->doubles;
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
    if (!etd_arg_number(call, i, &real) || (!etd_is_real(dtype) && !etd_arg_int64(call, i, &integer))) {
        return false;
    }
    *alpha = (etd_alpha){(float)real, real, (uint64_t)integer};
    return true;
}

/* Returns the type in which elements of two types are computed. PyTorch's own is narrower for integers, whose
 * results wrap alike. */
static uint8_t computed_type(const etd_operation *operation, uint8_t a, uint8_t b) {
    if (operation->of_truths) {
        return ETD_BOOL;
    }
    if (a == ETD_DOUBLE || b == ETD_DOUBLE) {
        return ETD_DOUBLE;
    }
    return operation->int64s == NULL || etd_is_real(a) || etd_is_real(b) ? ETD_FLOAT : ETD_LONG;
}

const char *etd_run_operands(const etd_call *call, const etd_operation *operation, const etd_tensor *self,
                             const etd_tensor *other, uint32_t next) {
    etd_alpha alpha = {1.0f, 1.0, 1};
    etd_tensor *out = etd_arg_out(call, operation->has_alpha ? next + 1 : next);
    if (!etd_is_numeric(self) || !etd_is_numeric(other) || !etd_is_numeric(out)) {
        return "invalid type of input or output";
    }
    uint8_t type = self->dtype;
    uint8_t result = operation->gives_truth ? ETD_BOOL : type;
    etd_line_fn compute = find_operation(operation, type);
    const bool is_converted = compute == NULL || other->dtype != type || out->dtype != result;
    if (is_converted) {
        type = computed_type(operation, type, other->dtype);
        result = operation->gives_truth ? ETD_BOOL : type;
        compute = find_operation(operation, type);
        if (compute == NULL || !etd_can_cast(result, out->dtype) ||
            (operation->gives_truth && out->dtype != ETD_BOOL)) {
            return "unsupported types of inputs and output";
        }
    }
    if (operation->has_alpha && !read_alpha(call, next, type, &alpha)) {
        return "invalid alpha";
    }
    if (!etd_resize_broadcast(out, self, other)) {
        return "inputs do not broadcast to the output";
    }
    if (is_converted) {
        const uint8_t types[TENSORS] = {type, type, result};
        run_converted(self, other, out, compute, &alpha, types);
    } else {
        etd_run_lines(self, other, out, compute, &alpha);
    }
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
    const etd_tensor *input;
    etd_tensor *out;
    const float *x;
    float *y;
    uint32_t numel;
    bool is_float; /* both are float32 */
} etd_mapping;

static const char *read_mapping(const etd_call *call, uint32_t out_index, etd_mapping *mapping) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, out_index);
    if (!etd_is_numeric(input) || !etd_is_numeric(out)) {
        return "invalid type of input or output";
    }
    if (!etd_take_layout(out, input)) {
        return "input and output differ in shape or layout";
    }
    const bool is_float = input->dtype == ETD_FLOAT && out->dtype == ETD_FLOAT;
    *mapping = (etd_mapping){input, out, etd_floats(input), etd_out_floats(out), etd_numel(out), is_float};
    return NULL;
}

const char *etd_run_map(const etd_call *call, uint32_t out, etd_map_fn map, const float *parameters) {
    etd_mapping mapping;
    const char *refusal = read_mapping(call, out, &mapping);
    if (refusal != NULL) {
        return refusal;
    }
    if (mapping.input->dtype == ETD_DOUBLE || !etd_is_real(mapping.out->dtype)) {
        return "supports only float32 and integers, and floats as the output";
    }
    if (mapping.is_float) {
        for (uint32_t i = 0; i < mapping.numel; i++) {
            mapping.y[i] = map(mapping.x[i], parameters);
        }
        return NULL;
    }
    for (uint32_t i = 0; i < mapping.numel; i++) {
        const float x = (float)etd_to_real(etd_load_number(mapping.input, i));
        etd_store_number(mapping.out, i, (etd_number){true, (double)map(x, parameters), 0});
    }
    return NULL;
}

static void clamp_floats(const etd_mapping *mapping, float low, float high) {
    for (uint32_t i = 0; i < mapping->numel; i++) {
        const float x = mapping->x[i];
        const float raised = x < low ? low : x; /* NaN is not less */
        mapping->y[i] = raised > high ? high : raised;
    }
}

/* Clamps int8 numbers, as the larger and the smaller of pairs. Returns false if a bound is no int8. */
static bool clamp_int8s(const etd_mapping *mapping, const etd_number *const bounds[2]) {
    int8_t limits[2] = {INT8_MIN, INT8_MAX};
    for (uint32_t b = 0; b < 2; b++) {
        if (bounds[b] != NULL) {
            limits[b] = (int8_t)bounds[b]->integer;
            if (bounds[b]->is_real || limits[b] != bounds[b]->integer) {
                return false;
            }
        }
    }
    const etd_tensor *from = mapping->input;
    for (uint32_t b = 0; b < 2; b++) {
        const etd_tensor bound = {.data = (uint8_t *)&limits[b], .dtype = ETD_CHAR};
        etd_run_lines(from, &bound, mapping->out, b == 0 ? etd_larger_int8s : etd_smaller_int8s, NULL);
        from = mapping->out;
    }
    return true;
}

const char *etd_run_clamp(const etd_call *call, uint32_t out, const etd_number *low, const etd_number *high) {
    const etd_number *const bounds[2] = {low, high};
    float limits[2] = {-INFINITY, INFINITY};
    etd_mapping mapping;
    const char *refusal = read_mapping(call, out, &mapping);
    if (refusal != NULL) {
        return refusal;
    }
    bool is_real = etd_is_real(mapping.input->dtype);
    for (uint32_t b = 0; b < 2; b++) {
        if (bounds[b] != NULL) {
            is_real = is_real || bounds[b]->is_real;
            limits[b] = (float)etd_to_real(*bounds[b]);
            mapping.is_float = mapping.is_float && !isnan(limits[b]);
        }
    }
    if (!etd_can_cast(is_real ? ETD_FLOAT : mapping.input->dtype, mapping.out->dtype)) {
        return "input and output differ in type";
    }
    if (mapping.is_float) {
        clamp_floats(&mapping, limits[0], limits[1]);
        return NULL;
    }
    if (etd_is_type(mapping.input, ETD_CHAR) && etd_is_type(mapping.out, ETD_CHAR) &&
        clamp_int8s(&mapping, bounds)) {
        return NULL;
    }
    for (uint32_t i = 0; i < mapping.numel; i++) {
        etd_number number = etd_load_number(mapping.input, i);
        number = low != NULL ? etd_limit(number, *low, false) : number;
        number = high != NULL ? etd_limit(number, *high, true) : number;
        etd_store_number(mapping.out, i, number);
    }
    return NULL;
}
