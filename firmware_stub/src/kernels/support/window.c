// SPDX-License-Identifier: Apache-2.0
#include "window.h"

/* Positions of a layout's dimensions in N, C, H, W. */
static const uint8_t places[][4] = {
    [ETD_NCHW] = {0, 1, 2, 3},
    [ETD_NHWC] = {0, 2, 3, 1},
    [ETD_CHW] = {1, 2, 3},
    [ETD_NCX] = {0, 1, 3},
};

static uint8_t dimensions(etd_layout layout) {
    return layout == ETD_CHW || layout == ETD_NCX ? 3 : 4;
}

etd_tensor etd_as_images(const etd_tensor *tensor, etd_layout layout) {
    etd_tensor view = *tensor;
    view.ndim = 4;
    for (uint32_t d = 0; d < 4; d++) {
        view.sizes[d] = 1;
        view.strides[d] = 0;
    }
    for (uint32_t d = 0; d < tensor->ndim; d++) {
        view.sizes[places[layout][d]] = tensor->sizes[d];
        view.strides[places[layout][d]] = tensor->strides[d];
    }
    return view;
}

bool etd_read_images(const etd_call *call, uint32_t input, uint32_t out, uint8_t dtype, etd_layout layout,
                     etd_window *window) {
    const etd_tensor *images = etd_arg_tensor(call, input);
    window->result = etd_arg_out(call, out);
    if (!etd_is_batch(images, dtype, dimensions(layout)) || (layout == ETD_CHW && images->sizes[0] == 0) ||
        !etd_is_type(window->result, dtype) || window->result->ndim != images->ndim) {
        return false;
    }
    window->layout = layout;
    window->views[0] = etd_as_images(images, layout);
    window->input = &window->views[0];
    window->out = &window->views[1];
    return true;
}

bool etd_read_image_or_batch(const etd_call *call, uint32_t out, uint8_t dtype, etd_window *window) {
    return etd_read_images(call, 0, out, dtype, ETD_NCHW, window) ||
           etd_read_images(call, 0, out, dtype, ETD_CHW, window);
}

bool etd_resize_images(etd_window *window, int32_t channels) {
    const int32_t wanted[4] = {window->input->sizes[0], channels, window->y.out, window->x.out};
    const uint8_t ndim = dimensions(window->layout);
    int32_t sizes[4];
    for (uint32_t d = 0; d < ndim; d++) {
        sizes[d] = wanted[places[window->layout][d]];
    }
    if (!etd_resize(window->result, sizes, ndim)) {
        return false;
    }
    window->views[1] = etd_as_images(window->result, window->layout);
    return true;
}

static bool in_range(int32_t number, int32_t min) {
    return number >= min && number <= ETD_AXIS_MAX;
}

bool etd_measure_axis(etd_axis *axis, bool ceil_mode) {
    if (!in_range(axis->in, 1) || !in_range(axis->kernel, 1) || !in_range(axis->stride, 1) ||
        !in_range(axis->pad, 0) || !in_range(axis->dilation, 1)) {
        return false;
    }
    int64_t room = (int64_t)axis->in + 2 * axis->pad - (int64_t)axis->dilation * (axis->kernel - 1) - 1;
    room += ceil_mode ? axis->stride - 1 : 0;
    int64_t out = room < 0 ? 0 : room / axis->stride + 1;
    if (ceil_mode && (out - 1) * axis->stride >= (int64_t)axis->in + axis->pad) {
        out--; /* the last window would begin in the padding at the end */
    }
    axis->out = (int32_t)out;
    return out >= 1 && out <= ETD_AXIS_MAX;
}

static bool measure_images(etd_window *window, int32_t channels, bool ceil_mode) {
    return etd_measure_axis(&window->y, ceil_mode) && etd_measure_axis(&window->x, ceil_mode) &&
           etd_resize_images(window, channels);
}

/* Returns the share of the input that an output of adaptive pooling has. Shares may overlap. */
static etd_taps share_of(const etd_axis *axis, int32_t position) {
    const int64_t in = axis->in;
    const int64_t out = axis->out;
    const int32_t first = (int32_t)(position * in / out);
    return (etd_taps){0, (int32_t)(((position + 1) * in + out - 1) / out) - first, first};
}

etd_taps etd_axis_taps(const etd_axis *axis, int32_t position) {
    if (axis->stride == 0) {
        return share_of(axis, position);
    }
    int32_t origin = position * axis->stride - axis->pad;
    int32_t first = origin >= 0 ? 0 : (axis->dilation - 1 - origin) / axis->dilation;
    int32_t start = origin + first * axis->dilation;
    if (start >= axis->in || first >= axis->kernel) {
        return (etd_taps){0, 0, 0}; /* all taps are in the padding */
    }
    int32_t room = (axis->in - start + axis->dilation - 1) / axis->dilation;
    int32_t left = axis->kernel - first;
    return (etd_taps){first, room < left ? room : left, start};
}

const char *etd_read_conv_axes(const etd_call *call, int32_t kernel_y, int32_t kernel_x, int32_t channels,
                               etd_window *window) {
    const int32_t *in = window->input->sizes;
    int32_t stride[2];
    int32_t pad[2];
    int32_t dilation[2];
    if (!etd_arg_pair(call, 3, 1, ETD_AXIS_MAX, stride) || !etd_arg_pair(call, 4, 0, ETD_AXIS_MAX, pad) ||
        !etd_arg_pair(call, 5, 1, ETD_AXIS_MAX, dilation)) {
        return "invalid stride, padding or dilation";
    }
    window->y = (etd_axis){in[2], 0, kernel_y, stride[0], pad[0], dilation[0]};
    window->x = (etd_axis){in[3], 0, kernel_x, stride[1], pad[1], dilation[1]};
    if (window->layout == ETD_NCX) { /* the lists have one item, for the x axis */
        window->y = (etd_axis){1, 0, 1, 1, 0, 1};
    }
    return measure_images(window, channels, false) ? NULL : "invalid output size";
}

/* Computes the output size: the input size of the convolution that this operator transposes, plus
 * output_padding. */
static bool measure_transposed_axis(etd_axis *axis, int32_t added) {
    const int64_t taps = (int64_t)axis->dilation * (axis->kernel - 1);
    const int64_t out = (int64_t)(axis->in - 1) * axis->stride - 2 * (int64_t)axis->pad + taps + added + 1;
    axis->out = (int32_t)out;
    /* The limits prevent overflow in `etd_transposed_taps`. */
    return axis->in <= ETD_AXIS_MAX && axis->kernel >= 1 && axis->kernel <= ETD_AXIS_MAX && out >= 1 &&
           out <= ETD_AXIS_MAX;
}

const char *etd_read_transposed_axes(const etd_call *call, int32_t kernel_y, int32_t kernel_x,
                                     int32_t channels, uint32_t padding_at, uint32_t dilation_at,
                                     etd_window *window) {
    const int32_t *in = window->input->sizes;
    int32_t stride[2];
    int32_t pad[2];
    int32_t added[2];
    int32_t dilation[2];
    if (!etd_arg_pair(call, 3, 1, ETD_AXIS_MAX, stride) || !etd_arg_pair(call, 4, 0, ETD_AXIS_MAX, pad) ||
        !etd_arg_pair(call, padding_at, 0, ETD_AXIS_MAX, added) ||
        !etd_arg_pair(call, dilation_at, 1, ETD_AXIS_MAX, dilation)) {
        return "invalid stride, padding, output_padding or dilation";
    }
    window->y = (etd_axis){in[2], 0, kernel_y, stride[0], pad[0], dilation[0]};
    window->x = (etd_axis){in[3], 0, kernel_x, stride[1], pad[1], dilation[1]};
    if (window->layout == ETD_NCX) { /* the lists have one item, which is that of the x axis */
        window->y = (etd_axis){1, 0, 1, 1, 0, 1};
        added[0] = 0;
    }
    if (!measure_transposed_axis(&window->y, added[0]) || !measure_transposed_axis(&window->x, added[1]) ||
        !etd_resize_images(window, channels)) {
        return "invalid output size";
    }
    return NULL;
}

etd_axis_steps etd_steps_of(const etd_axis *axis, bool transposed) {
    if (!transposed) {
        return (etd_axis_steps){1, axis->stride, 1, axis->dilation};
    }
    int32_t tap = 1;
    while (tap < axis->kernel && tap * axis->dilation % axis->stride != 0) {
        tap++;
    }
    /* Rounded up, so that it is a step if there is no second tap, too. */
    return (etd_axis_steps){axis->stride, 1, tap,
                            -((tap * axis->dilation + axis->stride - 1) / axis->stride)};
}

etd_taps etd_transposed_taps(const etd_axis *axis, const etd_axis_steps *steps, int32_t position) {
    int32_t reached = position + axis->pad;
    int32_t tap = 0;
    while (tap < steps->tap && reached % axis->stride != 0) {
        reached -= axis->dilation;
        tap++;
    }
    int32_t source = reached / axis->stride;
    while (source >= axis->in) {
        source += steps->source;
        tap += steps->tap;
    }
    if (tap >= axis->kernel || reached < 0 || reached % axis->stride != 0 || source < 0) {
        return (etd_taps){0, 0, 0};
    }
    const int32_t left = (axis->kernel - 1 - tap) / steps->tap;
    const int32_t room = source / -steps->source;
    return (etd_taps){tap, 1 + (left < room ? left : room), source};
}

const char *etd_read_adaptive_axes(const etd_call *call, etd_window *window) {
    const int32_t *in = window->input->sizes;
    window->y = (etd_axis){.in = in[2], .dilation = 1};
    window->x = (etd_axis){.in = in[3], .dilation = 1};
    if (etd_arg_list_count(call, 1) != 2 || !etd_arg_list_int(call, 1, 0, 1, ETD_AXIS_MAX, &window->y.out) ||
        !etd_arg_list_int(call, 1, 1, 1, ETD_AXIS_MAX, &window->x.out)) {
        return "invalid output_size";
    }
    return etd_resize_images(window, in[1]) ? NULL : "invalid output size";
}

const char *etd_read_dilated_pool_axes(const etd_call *call, const int32_t dilation[2], bool ceil_mode,
                                       etd_window *window) {
    const int32_t *in = window->input->sizes;
    int32_t kernel[2];
    int32_t stride[2];
    int32_t pad[2];
    const uint32_t stride_at = etd_arg_list_count(call, 2) == 0 ? 1 : 2;
    if (!etd_arg_pair(call, 1, 1, ETD_AXIS_MAX, kernel) ||
        !etd_arg_pair(call, stride_at, 1, ETD_AXIS_MAX, stride) ||
        !etd_arg_pair(call, 3, 0, ETD_AXIS_MAX, pad) || pad[0] > kernel[0] / 2 || pad[1] > kernel[1] / 2) {
        return "invalid kernel_size, stride or padding";
    }
    window->y = (etd_axis){in[2], 0, kernel[0], stride[0], pad[0], dilation[0]};
    window->x = (etd_axis){in[3], 0, kernel[1], stride[1], pad[1], dilation[1]};
    return measure_images(window, in[1], ceil_mode) ? NULL : "invalid output size";
}

const char *etd_read_pool_axes(const etd_call *call, bool ceil_mode, etd_window *window) {
    static const int32_t dilation[2] = {1, 1};
    return etd_read_dilated_pool_axes(call, dilation, ceil_mode, window);
}

void etd_slide(const etd_window *window, etd_position_fn compute, const void *context) {
    const int32_t *from = window->input->strides;
    const int32_t *to = window->out->strides;
    etd_patch patch;
    for (int32_t n = 0; n < window->out->sizes[0]; n++) {
        for (int32_t row = 0; row < window->y.out; row++) {
            patch.y = etd_axis_taps(&window->y, row);
            for (int32_t column = 0; column < window->x.out; column++) {
                patch.x = etd_axis_taps(&window->x, column);
                compute(context, &patch, n * from[0] + patch.y.start * from[2] + patch.x.start * from[3],
                        n * to[0] + row * to[2] + column * to[3]);
            }
        }
    }
}
