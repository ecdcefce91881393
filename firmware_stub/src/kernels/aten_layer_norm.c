#include <math.h>

#include "arguments.h"
#include "kernels.h"

/* The input as rows that are normalized each for itself. */
typedef struct {
    const float *input;
    const float *weight; /* per element of a row, or NULL */
    const float *bias;   /* the same */
    float *out;
    float *mean;              /* per row */
    float *inverse_deviation; /* per row */
    uint32_t rows;
    uint32_t length;
    float epsilon;
} et_layer_norm;

/* Counts the elements of a row; false unless normalized_shape is the input's last sizes. */
static bool read_row(const et_call *call, const et_tensor *input, uint32_t *length) {
    const uint32_t dims = et_arg_list_count(call, 1);
    *length = 1;
    if (dims == 0 || dims > input->ndim) {
        return false;
    }
    for (uint32_t i = 0; i < dims; i++) {
        const int32_t size = input->sizes[input->ndim - dims + i];
        int32_t same;
        if (!et_arg_list_int(call, 1, i, size, size, &same)) {
            return false;
        }
        *length *= (uint32_t)size;
    }
    return true;
}

/* Gives mean or rstd their sizes: the input's, with ones where it is normalized. */
static bool resize_statistic(et_tensor *statistic, const et_tensor *input, uint32_t dims) {
    int32_t sizes[ET_MAX_DIMS];
    for (uint32_t d = 0; d < input->ndim; d++) {
        sizes[d] = d < input->ndim - dims ? input->sizes[d] : 1;
    }
    return et_is_type(statistic, ET_FLOAT) && et_resize(statistic, sizes, input->ndim);
}

static bool is_dense(const et_tensor *tensor, uint32_t numel) {
    return et_is_type(tensor, ET_FLOAT) && et_is_contiguous(tensor) && et_numel(tensor) == numel;
}

static bool read_parameter(const et_call *call, uint32_t i, uint32_t length, const float **numbers) {
    *numbers = NULL;
    if (et_arg_is_none(call, i)) {
        return true;
    }
    const et_tensor *tensor = et_arg_tensor(call, i);
    if (!is_dense(tensor, length)) {
        return false;
    }
    *numbers = et_floats(tensor);
    return true;
}

/* native_layer_norm(input, normalized_shape, weight?, bias?, eps, *, out, mean, rstd) */
static const char *read_arguments(const et_call *call, et_layer_norm *norm) {
    const et_tensor *input = et_arg_tensor(call, 0);
    et_tensor *out = et_arg_out(call, 5);
    et_tensor *mean = et_arg_out(call, 6);
    et_tensor *inverse_deviation = et_arg_out(call, 7);
    double epsilon;
    if (!et_is_type(input, ET_FLOAT) || input->nbytes == 0 || !et_is_type(out, ET_FLOAT) ||
        !et_resize_like(out, input) || !et_is_contiguous(input) || !et_is_contiguous(out)) {
        return "only contiguous float32 that is not empty";
    }
    if (!read_row(call, input, &norm->length)) {
        return "normalized_shape";
    }
    norm->rows = et_numel(input) / norm->length;
    if (!read_parameter(call, 2, norm->length, &norm->weight) ||
        !read_parameter(call, 3, norm->length, &norm->bias) || !et_arg_number(call, 4, &epsilon)) {
        return "weight, bias or eps";
    }
    const uint32_t dims = et_arg_list_count(call, 1);
    if (!resize_statistic(mean, input, dims) || !resize_statistic(inverse_deviation, input, dims) ||
        !et_is_contiguous(mean) || !et_is_contiguous(inverse_deviation)) {
        return "outputs for mean and rstd";
    }
    norm->input = et_floats(input);
    norm->out = et_out_floats(out);
    norm->mean = et_out_floats(mean);
    norm->inverse_deviation = et_out_floats(inverse_deviation);
    norm->epsilon = (float)epsilon;
    return NULL;
}

/* In two passes: the difference of a mean of squares and a squared mean would lose digits. */
static void measure_row(const et_layer_norm *norm, const float *x, float *mean, float *inverse_deviation) {
    const float length = (float)norm->length;
    float sum = 0.0f;
    float squares = 0.0f;
    for (uint32_t i = 0; i < norm->length; i++) {
        sum += x[i];
    }
    *mean = sum / length;
    for (uint32_t i = 0; i < norm->length; i++) {
        squares += (x[i] - *mean) * (x[i] - *mean);
    }
    *inverse_deviation = 1.0f / sqrtf(squares / length + norm->epsilon);
}

static const char *layer_norm(const et_call *call) {
    et_layer_norm norm;
    const char *refusal = read_arguments(call, &norm);
    if (refusal != NULL) {
        return refusal;
    }
    for (uint32_t row = 0; row < norm.rows; row++) {
        const float *x = norm.input + row * norm.length;
        float *y = norm.out + row * norm.length;
        measure_row(&norm, x, &norm.mean[row], &norm.inverse_deviation[row]);
        for (uint32_t i = 0; i < norm.length; i++) {
            const float standard = (x[i] - norm.mean[row]) * norm.inverse_deviation[row];
            const float scaled = norm.weight != NULL ? standard * norm.weight[i] : standard;
            y[i] = norm.bias != NULL ? scaled + norm.bias[i] : scaled;
        }
    }
    return NULL;
}

const et_kernel et_aten_layer_norm = {"aten::native_layer_norm", "out", "native_call_native_layer_norm.out",
                                      8, layer_norm};
