#include "window.h"

/* The same image with its dimensions in the order N, C, H, W. */
static et_tensor channels_second(const et_tensor *image) {
    static const uint8_t dims[] = {0, 3, 1, 2};
    static const uint8_t names[] = {0, 2, 3, 1};
    et_tensor view = *image;
    for (uint32_t d = 0; d < sizeof dims; d++) {
        view.sizes[d] = image->sizes[dims[d]];
        view.strides[d] = image->strides[dims[d]];
        view.dim_order[d] = names[image->dim_order[d]];
    }
    return view;
}

bool et_read_images(const et_call *call, uint32_t input, uint32_t out, uint8_t dtype, et_layout layout,
                    et_window *window) {
    window->input = et_arg_tensor(call, input);
    window->out = et_arg_out(call, out);
    if (!et_is(window->input, dtype, 4) || !et_is(window->out, dtype, 4)) {
        return false;
    }
    if (layout == ET_NHWC) {
        window->views[0] = channels_second(window->input);
        window->views[1] = channels_second(window->out);
        window->input = &window->views[0];
        window->out = &window->views[1];
    }
    return true;
}

static bool in_range(int32_t number, int32_t min) {
    return number >= min && number <= ET_AXIS_MAX;
}

bool et_axis_is_sound(const et_axis *axis, bool ceil_mode) {
    if (!in_range(axis->in, 1) || !in_range(axis->out, 1) || !in_range(axis->kernel, 1) ||
        !in_range(axis->stride, 1) || !in_range(axis->pad, 0) || !in_range(axis->dilation, 1)) {
        return false;
    }
    int64_t room = (int64_t)axis->in + 2 * axis->pad - (int64_t)axis->dilation * (axis->kernel - 1) - 1;
    if (room < 0) {
        return false;
    }
    int64_t out = room / axis->stride + 1;
    if (ceil_mode && room % axis->stride != 0 && out * axis->stride < (int64_t)axis->in + axis->pad) {
        out++; /* unless the window would begin in the padding at the end */
    }
    return out == axis->out;
}

et_taps et_axis_taps(const et_axis *axis, int32_t position) {
    int32_t origin = position * axis->stride - axis->pad;
    int32_t first = origin >= 0 ? 0 : (axis->dilation - 1 - origin) / axis->dilation;
    int32_t start = origin + first * axis->dilation;
    if (start >= axis->in || first >= axis->kernel) {
        return (et_taps){0, 0, 0}; /* all in the padding */
    }
    int32_t room = (axis->in - start + axis->dilation - 1) / axis->dilation;
    int32_t left = axis->kernel - first;
    return (et_taps){first, room < left ? room : left, start};
}

/* The x axis is the last item of each list; a 1-d convolution has no other. */
static const char *read_conv(const et_call *call, const int32_t kernel[2], bool is_line, et_window *window) {
    const int32_t *in = window->input->sizes;
    const int32_t *out = window->out->sizes;
    int32_t stride[2];
    int32_t pad[2];
    int32_t dilation[2];
    if (!et_arg_pair(call, 3, 1, ET_AXIS_MAX, stride) || !et_arg_pair(call, 4, 0, ET_AXIS_MAX, pad) ||
        !et_arg_pair(call, 5, 1, ET_AXIS_MAX, dilation)) {
        return "stride, padding or dilation";
    }
    window->y = (et_axis){in[2], out[2], kernel[0], stride[0], pad[0], dilation[0]};
    window->x = (et_axis){in[3], out[3], kernel[1], stride[1], pad[1], dilation[1]};
    if (is_line) {
        window->y = (et_axis){1, 1, 1, 1, 0, 1};
    }
    if (!et_axis_is_sound(&window->y, false) || !et_axis_is_sound(&window->x, false) || in[0] != out[0]) {
        return "output size";
    }
    return NULL;
}

const char *et_read_conv_axes(const et_call *call, int32_t kernel_y, int32_t kernel_x, et_window *window) {
    const int32_t kernel[2] = {kernel_y, kernel_x};
    return read_conv(call, kernel, false, window);
}

const char *et_read_conv_line(const et_call *call, int32_t kernel_x, et_window *window) {
    const int32_t kernel[2] = {1, kernel_x};
    return read_conv(call, kernel, true, window);
}

const char *et_read_dilated_pool_axes(const et_call *call, const int32_t dilation[2], bool ceil_mode,
                                      et_window *window) {
    const int32_t *in = window->input->sizes;
    const int32_t *out = window->out->sizes;
    int32_t kernel[2];
    int32_t stride[2];
    int32_t pad[2];
    const uint32_t stride_at = et_arg_list_count(call, 2) == 0 ? 1 : 2;
    if (!et_arg_pair(call, 1, 1, ET_AXIS_MAX, kernel) ||
        !et_arg_pair(call, stride_at, 1, ET_AXIS_MAX, stride) || !et_arg_pair(call, 3, 0, ET_AXIS_MAX, pad) ||
        pad[0] > kernel[0] / 2 || pad[1] > kernel[1] / 2) {
        return "kernel_size, stride or padding";
    }
    window->y = (et_axis){in[2], out[2], kernel[0], stride[0], pad[0], dilation[0]};
    window->x = (et_axis){in[3], out[3], kernel[1], stride[1], pad[1], dilation[1]};
    if (!et_axis_is_sound(&window->y, ceil_mode) || !et_axis_is_sound(&window->x, ceil_mode) ||
        in[0] != out[0] || in[1] != out[1]) {
        return "output size";
    }
    return NULL;
}

const char *et_read_pool_axes(const et_call *call, bool ceil_mode, et_window *window) {
    static const int32_t dilation[2] = {1, 1};
    return et_read_dilated_pool_axes(call, dilation, ceil_mode, window);
}

bool et_is_image(const et_tensor *tensor, uint8_t dtype) {
    return et_is(tensor, dtype, 3) || et_is(tensor, dtype, 4);
}

/* A tensor of three dimensions with a dimension of one element more, at `place`. */
static et_tensor with_single(const et_tensor *tensor, uint32_t place) {
    et_tensor wider = *tensor;
    wider.ndim = 4;
    for (uint32_t d = 3; d > place; d--) {
        wider.sizes[d] = wider.sizes[d - 1];
        wider.strides[d] = wider.strides[d - 1];
    }
    wider.sizes[place] = 1;
    wider.strides[place] = 0;
    return wider;
}

et_tensor et_as_batch(const et_tensor *tensor) {
    return tensor->ndim == 3 ? with_single(tensor, 0) : *tensor;
}

et_tensor et_as_image(const et_tensor *line) {
    return with_single(line, 2);
}

void et_slide(const et_window *window, et_position_fn compute, const void *context) {
    const int32_t *from = window->input->strides;
    const int32_t *to = window->out->strides;
    et_patch patch;
    for (int32_t n = 0; n < window->out->sizes[0]; n++) {
        for (int32_t row = 0; row < window->y.out; row++) {
            patch.y = et_axis_taps(&window->y, row);
            for (int32_t column = 0; column < window->x.out; column++) {
                patch.x = et_axis_taps(&window->x, column);
                compute(context, &patch, n * from[0] + patch.y.start * from[2] + patch.x.start * from[3],
                        n * to[0] + row * to[2] + column * to[3]);
            }
        }
    }
}
