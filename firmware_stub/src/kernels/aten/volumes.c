// SPDX-License-Identifier: Apache-2.0
/* Convolution and pooling of volumes: float32 tensors with three spatial dimensions. */
#include "volumes.h"

#include <math.h>

#include "../kernels.h"
#include "../support/window.h"

/* An input and an output volume as N, C, D, H, W, and the window between them. */
typedef struct {
    etd_tensor input;
    etd_tensor out;
    etd_axis axes[3];
} etd_volumes;

/* Returns a volume with channels as a batch of one. */
static etd_tensor as_batch(const etd_tensor *tensor) {
    etd_tensor view = *tensor;
    if (tensor->ndim == 4) {
        view.ndim = 5;
        view.sizes[0] = 1;
        view.strides[0] = 0;
        for (uint32_t d = 0; d < 4; d++) {
            view.sizes[d + 1] = tensor->sizes[d];
            view.strides[d + 1] = tensor->strides[d];
        }
    }
    return view;
}

/* Reads one int for all axes, or three. */
static bool read_three(const etd_call *call, uint32_t i, int32_t min, int32_t numbers[3]) {
    const uint32_t count = etd_arg_list_count(call, i);
    for (uint32_t d = 0; d < 3; d++) {
        if (!etd_arg_list_int(call, i, count == 1 ? 0 : d, min, ETD_AXIS_MAX, &numbers[d])) {
            return false;
        }
    }
    return count == 1 || count == 3;
}

/* Resizes the output to `channels` and the sizes of the axes. */
static bool resize_volumes(etd_volumes *volumes, etd_tensor *result, int32_t channels) {
    const int32_t sizes[5] = {volumes->input.sizes[0], channels, volumes->axes[0].out, volumes->axes[1].out,
                              volumes->axes[2].out};
    const uint32_t skipped = 5u - result->ndim;
    if (!etd_resize(result, sizes + skipped, result->ndim)) {
        return false;
    }
    volumes->out = as_batch(result);
    return true;
}

/* Computes all channels of one output position. `from` is the offset of channel 0 at the first taps in the
 * input, `to` its offset in the output. */
typedef void (*etd_volume_fn)(const void *context, const etd_taps taps[3], int32_t from, int32_t to);

static void slide(const etd_volumes *volumes, etd_volume_fn compute, const void *context) {
    const int32_t *from = volumes->input.strides;
    const int32_t *to = volumes->out.strides;
    const int32_t lines = volumes->axes[0].out * volumes->axes[1].out;
    etd_taps taps[3];
    for (int32_t n = 0; n < volumes->out.sizes[0]; n++) {
        for (int32_t line = 0; line < lines; line++) {
            const int32_t z = line / volumes->axes[1].out;
            const int32_t y = line % volumes->axes[1].out;
            taps[0] = etd_axis_taps(&volumes->axes[0], z);
            taps[1] = etd_axis_taps(&volumes->axes[1], y);
            for (int32_t x = 0; x < volumes->axes[2].out; x++) {
                taps[2] = etd_axis_taps(&volumes->axes[2], x);
                compute(context, taps,
                        n * from[0] + taps[0].start * from[2] + taps[1].start * from[3] +
                            taps[2].start * from[4],
                        n * to[0] + z * to[2] + y * to[3] + x * to[4]);
            }
        }
    }
}

typedef struct {
    etd_volumes volumes;
    const etd_tensor *weight; /* O, C / groups, and the kernel */
    const etd_tensor *bias;   /* O, or NULL */
    int32_t groups;
} etd_volume_convolution;

/* Reads the axes of a convolution of volumes, and resizes its output. */
static const char *read_axes(const etd_call *call, etd_volume_convolution *conv, int32_t channels) {
    etd_volumes *volumes = &conv->volumes;
    int32_t stride[3];
    int32_t pad[3];
    int32_t dilation[3];
    if (!read_three(call, 3, 1, stride) || !read_three(call, 4, 0, pad) ||
        !read_three(call, 5, 1, dilation)) {
        return "invalid stride, padding or dilation";
    }
    for (uint32_t d = 0; d < 3; d++) {
        etd_axis *axis = &volumes->axes[d];
        *axis = (etd_axis){
            volumes->input.sizes[d + 2], 0, conv->weight->sizes[d + 2], stride[d], pad[d], dilation[d]};
        if (!etd_measure_axis(axis, false)) {
            return "invalid output size";
        }
    }
    return resize_volumes(volumes, etd_arg_out(call, 9), channels) ? NULL : "invalid output size";
}

static const char *read_convolution(const etd_call *call, etd_volume_convolution *conv) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    const etd_tensor *out = etd_arg_out(call, 9);
    conv->weight = etd_arg_tensor(call, 1);
    if (!etd_is(input, ETD_FLOAT, 5) || !etd_is(conv->weight, ETD_FLOAT, 5) || !etd_is_type(out, ETD_FLOAT) ||
        out->ndim != 5) {
        return "supports only float32 volumes";
    }
    conv->volumes.input = *input;
    const int32_t *weight = conv->weight->sizes;
    bool transposed;
    if (!etd_arg_bool(call, 6, &transposed) || transposed) {
        return "supports no transposed convolution of volumes";
    }
    if (!etd_arg_int(call, 8, 1, ETD_AXIS_MAX, &conv->groups) || weight[0] % conv->groups != 0 ||
        weight[1] > ETD_AXIS_MAX / conv->groups || input->sizes[1] != weight[1] * conv->groups) {
        return "invalid channels and groups";
    }
    const int32_t channels = weight[0];
    conv->bias = etd_arg_is_none(call, 2) ? NULL : etd_arg_tensor(call, 2);
    if (!etd_arg_is_none(call, 2) && !etd_has_elements(conv->bias, ETD_FLOAT, channels)) {
        return "invalid bias";
    }
    return read_axes(call, conv, channels);
}

/* Returns the sum of products over the taps of one channel of the input. */
static float sum_taps(const etd_volumes *volumes, const etd_taps taps[3], const float *x, const float *w,
                      const int32_t w_strides[3]) {
    const int32_t *from = volumes->input.strides + 2;
    const int32_t step = volumes->axes[2].dilation * from[2];
    float sum = 0.0f;
    for (int32_t z = 0; z < taps[0].count; z++) {
        for (int32_t y = 0; y < taps[1].count; y++) {
            const float *x_line =
                x + z * volumes->axes[0].dilation * from[0] + y * volumes->axes[1].dilation * from[1];
            const float *w_line = w + z * w_strides[0] + y * w_strides[1];
            for (int32_t left = taps[2].count; left > 0; left--) {
                sum += *x_line * *w_line;
                x_line += step;
                w_line += w_strides[2];
            }
        }
    }
    return sum;
}

/* Computes all channels at one output position. */
static void convolve_at(const void *context, const etd_taps taps[3], int32_t from, int32_t to) {
    const etd_volume_convolution *conv = context;
    const etd_volumes *volumes = &conv->volumes;
    const int32_t *w_strides = conv->weight->strides;
    const int32_t channels = conv->weight->sizes[1];
    const int32_t per_group = conv->weight->sizes[0] / conv->groups;
    const float *w = etd_floats(conv->weight) + taps[0].first * w_strides[2] + taps[1].first * w_strides[3] +
                     taps[2].first * w_strides[4];
    for (int32_t channel = 0; channel < conv->weight->sizes[0]; channel++) {
        const float *x =
            etd_floats(&volumes->input) + from + channel / per_group * channels * volumes->input.strides[1];
        float sum = conv->bias != NULL ? etd_floats(conv->bias)[channel] : 0.0f;
        for (int32_t i = 0; i < channels; i++) {
            sum += sum_taps(volumes, taps, x, w + channel * w_strides[0] + i * w_strides[1], w_strides + 2);
            x += volumes->input.strides[1];
        }
        etd_out_floats(&volumes->out)[to + channel * volumes->out.strides[1]] = sum;
    }
}

const char *etd_convolve_volumes(const etd_call *call) {
    etd_volume_convolution conv;
    const char *refusal = read_convolution(call, &conv);
    if (refusal == NULL) {
        slide(&conv.volumes, convolve_at, &conv);
    }
    return refusal;
}

typedef struct {
    etd_volumes volumes;
    int64_t *indices; /* of the maxima in their channels; NULL: a mean */
    int32_t divisor;  /* of a mean; 0: the number of elements */
    bool count_padding;
} etd_volume_pool;

/* Reads kernel_size, stride and padding (arguments 1 to 3) and resizes the output. */
static const char *read_pool(const etd_call *call, uint32_t out, const int32_t dilation[3], bool ceil_mode,
                             etd_volume_pool *pool) {
    const etd_tensor *input = etd_arg_tensor(call, 0);
    etd_tensor *result = etd_arg_out(call, out);
    int32_t kernel[3];
    int32_t stride[3];
    int32_t pad[3];
    if ((!etd_is(input, ETD_FLOAT, 5) && !etd_is(input, ETD_FLOAT, 4)) || !etd_is_type(result, ETD_FLOAT) ||
        result->ndim != input->ndim) {
        return "supports only float32 volumes";
    }
    if (!read_three(call, 1, 1, kernel) ||
        !read_three(call, etd_arg_list_count(call, 2) == 0 ? 1 : 2, 1, stride) ||
        !read_three(call, 3, 0, pad)) {
        return "invalid kernel_size, stride or padding";
    }
    pool->volumes.input = as_batch(input);
    for (uint32_t d = 0; d < 3; d++) {
        etd_axis *axis = &pool->volumes.axes[d];
        *axis = (etd_axis){pool->volumes.input.sizes[d + 2], 0, kernel[d], stride[d], pad[d], dilation[d]};
        if (pad[d] > kernel[d] / 2 || !etd_measure_axis(axis, ceil_mode)) {
            return "invalid padding or output size";
        }
        for (int32_t position = 0; position < axis->out; position++) {
            if (etd_axis_taps(axis, position).count == 0) {
                return "a window misses the input";
            }
        }
    }
    return resize_volumes(&pool->volumes, result, pool->volumes.input.sizes[1]) ? NULL
                                                                                : "invalid output size";
}

/* Returns how many elements of an axis a window covers; padding beyond it, from ceil_mode, never counts. */
static int32_t covered(const etd_axis *axis, const etd_taps *taps, bool count_padding) {
    const int32_t room = axis->in + axis->pad - (taps->start - taps->first);
    if (!count_padding) {
        return taps->count;
    }
    return room < axis->kernel ? room : axis->kernel;
}

/* Computes one output. The first maximum counts, or the last NaN. */
static void pool_window(const etd_volume_pool *pool, const etd_taps taps[3], const float *x, int32_t to) {
    const etd_axis *axes = pool->volumes.axes;
    const int32_t *from = pool->volumes.input.strides + 2;
    const int32_t count = taps[0].count * taps[1].count * taps[2].count;
    float result = 0.0f;
    int64_t divisor = 1;
    for (int32_t tap = 0; tap < count; tap++) {
        const int32_t line = tap / taps[2].count;
        const int32_t z = line / taps[1].count * axes[0].dilation;
        const int32_t y = line % taps[1].count * axes[1].dilation;
        const int32_t column = tap % taps[2].count * axes[2].dilation;
        const float next = x[z * from[0] + y * from[1] + column * from[2]];
        if (pool->indices == NULL) {
            result += next;
        } else if (tap == 0 || next > result || isnan(next)) {
            const int64_t plane = (int64_t)(taps[0].start + z) * axes[1].in + taps[1].start + y;
            result = next;
            pool->indices[to] = plane * axes[2].in + taps[2].start + column;
        }
    }
    for (uint32_t d = 0; d < 3; d++) {
        divisor *= covered(&axes[d], &taps[d], pool->count_padding);
    }
    if (pool->indices == NULL) {
        result /= (float)(pool->divisor != 0 ? pool->divisor : divisor);
    }
    etd_out_floats(&pool->volumes.out)[to] = result;
}

static void pool_at(const void *context, const etd_taps taps[3], int32_t from, int32_t to) {
    const etd_volume_pool *pool = context;
    const float *x = etd_floats(&pool->volumes.input) + from;
    for (int32_t channel = 0; channel < pool->volumes.input.sizes[1]; channel++) {
        pool_window(pool, taps, x, to);
        x += pool->volumes.input.strides[1];
        to += pool->volumes.out.strides[1];
    }
}

/* max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode, *, out, indices) */
static const char *max_pool3d(const etd_call *call) {
    etd_tensor *indices = etd_arg_out(call, 7);
    etd_volume_pool pool = {.divisor = 0};
    int32_t dilation[3];
    bool ceil_mode;
    if (!read_three(call, 4, 1, dilation) || !etd_arg_bool(call, 5, &ceil_mode)) {
        return "invalid dilation or ceil_mode";
    }
    const char *refusal = read_pool(call, 6, dilation, ceil_mode, &pool);
    if (refusal != NULL) {
        return refusal;
    }
    if (!etd_is_type(indices, ETD_LONG) || !etd_take_layout(indices, etd_arg_out(call, 6))) {
        return "invalid type, shape or layout of indices";
    }
    pool.indices = (int64_t *)(void *)indices->data;
    slide(&pool.volumes, pool_at, &pool);
    return NULL;
}

/* avg_pool3d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override?, *, out) */
static const char *avg_pool3d(const etd_call *call) {
    static const int32_t dilation[3] = {1, 1, 1};
    etd_volume_pool pool = {.divisor = 0};
    bool ceil_mode;
    if (!etd_arg_bool(call, 4, &ceil_mode) || !etd_arg_bool(call, 5, &pool.count_padding) ||
        (!etd_arg_is_none(call, 6) && !etd_arg_int(call, 6, 1, INT32_MAX, &pool.divisor))) {
        return "invalid ceil_mode, count_include_pad or divisor_override";
    }
    const char *refusal = read_pool(call, 7, dilation, ceil_mode, &pool);
    if (refusal == NULL) {
        slide(&pool.volumes, pool_at, &pool);
    }
    return refusal;
}

ETD_ATEN_KERNEL(avg_pool3d, "avg_pool3d", "out", ETD_IN_FLOAT32 + 8, avg_pool3d)
ETD_ATEN_KERNEL(max_pool3d, "max_pool3d_with_indices", "out", ETD_IN_FLOAT32 + 8, max_pool3d)
