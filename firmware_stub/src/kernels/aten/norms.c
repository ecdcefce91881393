// SPDX-License-Identifier: Apache-2.0
/* Norms with statistics of their input: per group of channels in an image, or per channel in a batch. */
#include <math.h>

#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/moments.h"

typedef struct {
    const etd_tensor *input;
    etd_tensor *out;
    etd_tensor *mean;
    etd_tensor *inverse_deviation;
    const float *weight; /* per channel, or NULL */
    const float *bias;   /* the same */
    float epsilon;
    uint32_t pixels; /* per channel, adjacent */
} etd_norm;

static bool read_parameter(const etd_call *call, uint32_t i, int32_t channels, const float **numbers) {
    const etd_tensor *tensor = etd_arg_tensor(call, i);
    *numbers = NULL;
    if (etd_arg_is_none(call, i)) {
        return true;
    }
    if (!etd_has_elements(tensor, ETD_FLOAT, channels)) {
        return false;
    }
    *numbers = etd_floats(tensor);
    return true;
}

/* Reads the common arguments: (input, weight?, bias?, .., eps, *, out, mean, rstd). */
static const char *read_arguments(const etd_call *call, uint32_t epsilon_at, etd_norm *norm) {
    double epsilon;
    norm->input = etd_arg_tensor(call, 0);
    norm->out = etd_arg_out(call, epsilon_at + 1);
    norm->mean = etd_arg_out(call, epsilon_at + 2);
    norm->inverse_deviation = etd_arg_out(call, epsilon_at + 3);
    if (!etd_is_type(norm->input, ETD_FLOAT) || norm->input->ndim < 2 || norm->input->nbytes == 0 ||
        !etd_is_type(norm->out, ETD_FLOAT) || !etd_resize_like(norm->out, norm->input) ||
        !etd_is_contiguous(norm->input) || !etd_is_contiguous(norm->out)) {
        return "supports only contiguous float32 with channels";
    }
    const int32_t channels = norm->input->sizes[1];
    if (!read_parameter(call, 1, channels, &norm->weight) ||
        !read_parameter(call, 2, channels, &norm->bias) || !etd_arg_number(call, epsilon_at, &epsilon)) {
        return "invalid weight, bias or eps";
    }
    norm->epsilon = (float)epsilon;
    norm->pixels = etd_numel(norm->input) / ((uint32_t)norm->input->sizes[0] * (uint32_t)channels);
    return NULL;
}

/* Resizes the outputs for the statistics. */
static bool resize_statistics(const etd_norm *norm, const int32_t *sizes, uint32_t ndim) {
    return etd_is_type(norm->mean, ETD_FLOAT) && etd_is_type(norm->inverse_deviation, ETD_FLOAT) &&
           etd_resize(norm->mean, sizes, ndim) && etd_resize(norm->inverse_deviation, sizes, ndim) &&
           etd_is_contiguous(norm->mean) && etd_is_contiguous(norm->inverse_deviation);
}

/* Computes statistic `number` from the elements along a walk from `start`. */
static void measure(const etd_norm *norm, uint32_t start, etd_walk *over, uint32_t count, uint32_t number) {
    const etd_moments moments = etd_measure(etd_floats(norm->input) + start, over, count);
    etd_out_floats(norm->mean)[number] = moments.mean;
    etd_out_floats(norm->inverse_deviation)[number] =
        1.0f / sqrtf(moments.squares / (float)count + norm->epsilon);
}

/* Normalizes one channel of one image with statistic `number`. */
static void normalize(const etd_norm *norm, uint32_t image, uint32_t channel, uint32_t number) {
    const uint32_t start = (image * (uint32_t)norm->input->sizes[1] + channel) * norm->pixels;
    const float mean = etd_floats(norm->mean)[number];
    const float deviation = etd_floats(norm->inverse_deviation)[number];
    const float scale = norm->weight != NULL ? norm->weight[channel] * deviation : deviation;
    const float bias = norm->bias != NULL ? norm->bias[channel] : 0.0f;
    for (uint32_t i = start; i < start + norm->pixels; i++) {
        etd_out_floats(norm->out)[i] = (etd_floats(norm->input)[i] - mean) * scale + bias;
    }
}

/* native_group_norm(input, weight?, bias?, N, C, HxW, group, eps, *, out0, out1, out2) */
static const char *group_norm(const etd_call *call) {
    etd_norm norm;
    int32_t groups;
    int32_t same;
    const char *refusal = read_arguments(call, 7, &norm);
    if (refusal != NULL) {
        return refusal;
    }
    const int32_t images = norm.input->sizes[0];
    const int32_t channels = norm.input->sizes[1];
    const int32_t pixels = (int32_t)norm.pixels;
    if (!etd_arg_int(call, 3, images, images, &same) || !etd_arg_int(call, 4, channels, channels, &same) ||
        !etd_arg_int(call, 5, pixels, pixels, &same) || !etd_arg_int(call, 6, 1, channels, &groups) ||
        channels % groups != 0) {
        return "N, C, HxW or group";
    }
    const int32_t sizes[] = {images, groups};
    if (!resize_statistics(&norm, sizes, 2)) {
        return "invalid outputs for mean and rstd";
    }
    const uint32_t per_group = (uint32_t)(channels / groups);
    const uint32_t count = per_group * norm.pixels;
    for (uint32_t number = 0; number < (uint32_t)(images * groups); number++) {
        etd_walk over = {0};
        etd_walk_add(&over, (int32_t)count, 1); /* channels of a group are adjacent */
        measure(&norm, number * count, &over, count, number);
        for (uint32_t i = 0; i < per_group; i++) {
            normalize(&norm, number / (uint32_t)groups, number % (uint32_t)groups * per_group + i, number);
        }
    }
    return NULL;
}

/* _native_batch_norm_legit.no_stats(input, weight?, bias?, training, momentum, eps, *, out, save_mean,
 * save_invstd): with statistics of the batch, as in instance norm */
static const char *batch_norm_without_statistics(const etd_call *call) {
    etd_norm norm;
    bool training;
    const char *refusal = read_arguments(call, 5, &norm);
    if (refusal != NULL) {
        return refusal;
    }
    if (!etd_arg_bool(call, 3, &training) || !training) {
        return "invalid training";
    }
    const int32_t *sizes = norm.input->sizes;
    if (!resize_statistics(&norm, &sizes[1], 1)) {
        return "invalid outputs for mean and invstd";
    }
    const uint32_t images = (uint32_t)sizes[0];
    const uint32_t channels = (uint32_t)sizes[1];
    const uint32_t count = etd_numel(norm.input) / channels;
    for (uint32_t channel = 0; channel < channels; channel++) {
        etd_walk over = {0};
        etd_walk_add(&over, sizes[0], (int32_t)(channels * norm.pixels));
        etd_walk_add(&over, (int32_t)norm.pixels, 1);
        measure(&norm, channel * norm.pixels, &over, count, channel);
        for (uint32_t image = 0; image < images; image++) {
            normalize(&norm, image, channel, channel);
        }
    }
    return NULL;
}

ETD_ATEN_KERNEL(group_norm, "native_group_norm", "out", ETD_IN_FLOAT32 + 11, group_norm)
ETD_ATEN_KERNEL(batch_norm_without_statistics, "_native_batch_norm_legit", "no_stats_out", ETD_IN_FLOAT32 + 9,
                batch_norm_without_statistics)
