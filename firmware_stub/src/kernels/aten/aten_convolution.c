// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/convolution.h"
#include "../support/float_products.h"
#include "../support/window.h"
#include "volumes.h"

bool etd_read_convolution(const etd_call *call, etd_convolution *conv) {
    const etd_tensor *weight = etd_arg_tensor(call, 1);
    if ((!etd_read_images(call, 0, 9, ETD_FLOAT, ETD_NCHW, &conv->window) &&
         !etd_read_images(call, 0, 9, ETD_FLOAT, ETD_NCX, &conv->window)) ||
        !etd_is(weight, ETD_FLOAT, conv->window.result->ndim)) {
        return false;
    }
    conv->weight = etd_as_images(weight, conv->window.layout);
    return true;
}

/* convolution(input, weight, bias?, stride, padding, dilation, transposed, output_padding, groups, *, out) */
static const char *read_arguments(const etd_call *call, etd_convolution *conv) {
    bool transposed;
    if (!etd_read_convolution(call, conv)) {
        return "supports only float32 in one or two spatial dimensions";
    }
    if (!etd_arg_bool(call, 6, &transposed)) {
        return "invalid transposed is not supported";
    }
    if (transposed) {
        return etd_read_transposed_convolution(call, conv);
    }
    const int32_t *weight = conv->weight.sizes;
    const int32_t channels = conv->window.input->sizes[1];
    if (!etd_arg_int(call, 8, 1, ETD_AXIS_MAX, &conv->groups) || weight[0] % conv->groups != 0 ||
        channels % conv->groups != 0 || channels / conv->groups != weight[1]) {
        return "invalid channels and groups";
    }
    conv->bias = etd_arg_is_none(call, 2) ? NULL : etd_arg_tensor(call, 2);
    if (!etd_arg_is_none(call, 2) && !etd_has_elements(conv->bias, ETD_FLOAT, weight[0])) {
        return "invalid bias";
    }
    return etd_read_conv_axes(call, weight[2], weight[3], weight[0], &conv->window);
}

/* Adjacent output positions of an axis, which see the same taps of the kernel. */
typedef struct {
    int32_t first;
    int32_t count;
    etd_taps taps; /* of the first position */
} etd_stretch;

/* Returns the stretch that begins at an output position. */
static etd_stretch stretch_at(const etd_axis *axis, int32_t first) {
    etd_stretch stretch = {first, 1, etd_axis_taps(axis, first)};
    for (; first + stretch.count < axis->out; stretch.count++) {
        const etd_taps taps = etd_axis_taps(axis, first + stretch.count);
        if (taps.first != stretch.taps.first || taps.count != stretch.taps.count) {
            break;
        }
    }
    return stretch;
}

/* Computes all channels at the positions of two stretches, for which every sum has the same taps. */
static void convolve_area(const etd_convolution *conv, int32_t image, const etd_stretch *y,
                          const etd_stretch *x) {
    const etd_window *window = &conv->window;
    const int32_t *from = window->input->strides;
    const int32_t *to = window->out->strides;
    const int32_t *w = conv->weight.strides;
    const int32_t channels = conv->weight.sizes[1];
    const int32_t per_group = conv->weight.sizes[0] / conv->groups;
    const etd_sum_loop loops[ETD_SUM_LOOPS] = {
        {channels, w[1], from[1]},
        {y->taps.count, w[2], etd_scale_step(from[2], window->y.dilation)},
        {x->taps.count, w[3], etd_scale_step(from[3], window->x.dilation)},
    };
    etd_float_products products = {
        .a = etd_floats(&conv->weight) + y->taps.first * w[2] + x->taps.first * w[3],
        .b = etd_floats(window->input) + image * from[0] + y->taps.start * from[2] + x->taps.start * from[3],
        .out = etd_out_floats(window->out) + image * to[0] + y->first * to[2] + x->first * to[3],
        .added = conv->bias != NULL ? etd_floats(conv->bias) : NULL,
        .alpha = 1.0f,
        .beta = 1.0f,
        .a_row = {per_group, w[0], to[1], 1},
        .b_rows = {y->count, etd_scale_step(from[2], window->y.stride), to[2], 0},
        .b_columns = {x->count, etd_scale_step(from[3], window->x.stride), to[3], 0},
        .batch = {conv->groups, per_group * w[0], channels * from[1], per_group * to[1], per_group},
    };
    etd_set_sum_loops(&products, loops);
    etd_compute_products(&products);
}

static void convolve(const etd_convolution *conv) {
    const etd_axis *y_axis = &conv->window.y;
    const etd_axis *x_axis = &conv->window.x;
    for (int32_t image = 0; image < conv->window.out->sizes[0]; image++) {
        etd_stretch y = {0};
        for (int32_t row = 0; row < y_axis->out; row += y.count) {
            y = stretch_at(y_axis, row);
            etd_stretch x = {0};
            for (int32_t column = 0; column < x_axis->out; column += x.count) {
                x = stretch_at(x_axis, column);
                convolve_area(conv, image, &y, &x);
            }
        }
    }
}

static const char *convolution(const etd_call *call) {
    etd_convolution conv = {.transposed = false};
    const etd_tensor *input = etd_arg_tensor(call, 0);
    if (input != NULL && input->ndim == 5) {
        return etd_convolve_volumes(call);
    }
    const char *refusal = read_arguments(call, &conv);
    if (refusal != NULL) {
        return refusal;
    }
    if (conv.transposed) {
        etd_run_transposed_convolution(&conv);
        return NULL;
    }
    convolve(&conv);
    return NULL;
}

const etd_kernel etd_aten_convolution = {"aten::convolution", "out", "native_call_convolution.out",
                                         ETD_IN_FLOAT32 + 10, convolution};
