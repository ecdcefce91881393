// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/moments.h"

/* The input as rows, each of which is normalized. */
typedef struct {
    const float *input;
    const float *weight; /* per element of a row, or NULL */
    const float *bias;   /* per element of a row, or NULL */
    float *out;
    float *mean;              /* per row */
    float *inverse_deviation; /* per row */
    uint32_t rows;
    uint32_t length;
    float epsilon;
} etd_layer_norm;

/* Counts the elements of a row. Returns false unless normalized_shape equals the input's last sizes. */
static bool read_row(const etd_call *call, const etd_tensor *input, uint32_t *length) {
    const uint32_t dims = etd_arg_list_count(call, 1);
    *length = 1;
    if (dims == 0 || dims > input->ndim) {
        return false;
    }
    for (uint32_t i = 0; i < dims; i++) {
        const int32_t size = input->sizes[input->ndim - dims + i];
        int32_t same;
        if (!etd_arg_list_int(call, 1, i, size, size, &same)) {
            return false;
        }
        *length *= (uint32_t)size;
    }
    return true;
}

/* Resizes mean or rstd to the input's sizes, with 1 in the normalized dimensions. */
static bool resize_statistic(etd_tensor *statistic, const etd_tensor *input, uint32_t dims) {
    int32_t sizes[ETD_MAX_DIMS];
    for (uint32_t d = 0; d < input->ndim; d++) {
        sizes[d] = d < input->ndim - dims ? input->sizes[d] : 1;
    }
    return etd_is_type(statistic, ETD_FLOAT) && etd_resize(statistic, sizes, input->ndim);
}

static bool is_dense(const etd_tensor *tensor, uint32_t numel) {
    return etd_is_type(tensor, ETD_FLOAT) && etd_is_contiguous(tensor) && etd_numel(tensor) == numel;
}

static bool read_parameter(const etd_call *call, uint32_t i, uint32_t length, const float **numbers) {
    *numbers = NULL;
    if (etd_arg_is_none(call, i)) {
        return true;
    }
    const etd_tensor *tensor = etd_arg_tensor(call, i);
    if (!is_dense(tensor, length)) {
        return false;
    }
    *numbers = etd_floats(tensor);
    return true;
}

/* native_layer_norm(input, normalized_shape, weight?, bias?, eps, *, out, mean, rstd) */
static const char *read_arguments(const etd_call *call, etd_layer_norm *norm) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *out = etd_arg_out(call, 5);
    etd_tensor *mean = etd_arg_out(call, 6);
    etd_tensor *inverse_deviation = etd_arg_out(call, 7);
    double epsilon;
    if (!etd_is_type(input, ETD_FLOAT) || !etd_is_type(out, ETD_FLOAT) || !etd_resize_like(out, input) ||
        !etd_is_contiguous(input) || !etd_is_contiguous(out)) {
        return "supports only contiguous float32";
    }
    if (!read_row(call, input, &norm->length) || norm->length == 0) {
        return "invalid normalized_shape";
    }
    norm->rows = etd_numel(input) / norm->length;
    if (!read_parameter(call, 2, norm->length, &norm->weight) ||
        !read_parameter(call, 3, norm->length, &norm->bias) || !etd_arg_number(call, 4, &epsilon)) {
        return "invalid weight, bias or eps";
    }
    const uint32_t dims = etd_arg_list_count(call, 1);
    if (!resize_statistic(mean, input, dims) || !resize_statistic(inverse_deviation, input, dims) ||
        !etd_is_contiguous(mean) || !etd_is_contiguous(inverse_deviation)) {
        return "invalid outputs for mean and rstd";
    }
    norm->input = etd_floats(input);
    norm->out = etd_out_floats(out);
    norm->mean = etd_out_floats(mean);
    norm->inverse_deviation = etd_out_floats(inverse_deviation);
    norm->epsilon = (float)epsilon;
    return NULL;
}

static const char *layer_norm(const etd_call *call) {
    etd_layer_norm norm;
    const char *refusal = read_arguments(call, &norm);
    if (refusal != NULL) {
        return refusal;
    }
    for (uint32_t row = 0; row < norm.rows; row++) {
        const float *x = norm.input + row * norm.length;
        float *y = norm.out + row * norm.length;
        const etd_moments moments = etd_measure_line(x, norm.length);
        norm.mean[row] = moments.mean;
        const float inverse_deviation = 1.0f / sqrtf(moments.squares / (float)norm.length + norm.epsilon);
        norm.inverse_deviation[row] = inverse_deviation;
        for (uint32_t i = 0; i < norm.length; i++) {
            const float standard = (x[i] - moments.mean) * inverse_deviation;
            const float scaled = norm.weight != NULL ? standard * norm.weight[i] : standard;
            y[i] = norm.bias != NULL ? scaled + norm.bias[i] : scaled;
        }
    }
    return NULL;
}

const etd_kernel etd_aten_layer_norm = {"aten::native_layer_norm", "out", "native_call_native_layer_norm.out",
                                        ETD_IN_FLOAT32 + 8, layer_norm};
