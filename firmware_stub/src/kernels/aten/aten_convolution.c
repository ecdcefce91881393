// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/float_products.h"
#include "../support/window.h"
#include "volumes.h"

typedef struct {
    etd_window window;
    etd_tensor weight;      /* O, C / groups, kernel y, kernel x; transposed: C, O / groups, .. */
    const etd_tensor *bias; /* O, or NULL */
    int32_t groups;
    bool transposed;
    int32_t channels;  /* of a group of the input */
    int32_t per_group; /* of the output */
} etd_convolution;

/* convolution(input, weight, bias?, stride, padding, dilation, transposed, output_padding, groups, *, out) */
static const char *read_arguments(const etd_call *call, etd_convolution *conv) {
    const etd_tensor *kernel = etd_arg_tensor(call, 1);
    etd_window *window = &conv->window;
    if ((!etd_read_images(call, 0, 9, ETD_FLOAT, ETD_NCHW, window) &&
         !etd_read_images(call, 0, 9, ETD_FLOAT, ETD_NCX, window)) ||
        !etd_is(kernel, ETD_FLOAT, window->result->ndim)) {
        return "supports only float32 in one or two spatial dimensions";
    }
    conv->weight = etd_as_images(kernel, window->layout);
    if (!etd_arg_bool(call, 6, &conv->transposed)) {
        return "invalid transposed is not supported";
    }
    const int32_t *weight = conv->weight.sizes;
    if (!etd_arg_int(call, 8, 1, ETD_AXIS_MAX, &conv->groups) || weight[0] % conv->groups != 0 ||
        weight[1] > ETD_AXIS_MAX / conv->groups) {
        return "invalid channels and groups";
    }
    const int32_t rows = weight[0] / conv->groups;
    conv->channels = conv->transposed ? rows : weight[1];
    conv->per_group = conv->transposed ? weight[1] : rows;
    if (conv->channels * conv->groups != window->input->sizes[1]) {
        return "invalid channels and groups";
    }
    const int32_t channels = conv->per_group * conv->groups;
    conv->bias = etd_arg_is_none(call, 2) ? NULL : etd_arg_tensor(call, 2);
    if (!etd_arg_is_none(call, 2) && !etd_has_elements(conv->bias, ETD_FLOAT, channels)) {
        return "invalid bias";
    }
    return conv->transposed ? etd_read_transposed_axes(call, weight[2], weight[3], channels, 7, 5, window)
                            : etd_read_conv_axes(call, weight[2], weight[3], channels, window);
}

/* Output positions of an axis, at equal distances, which see the same taps of the kernel. */
typedef struct {
    int32_t first;
    int32_t count;
    etd_taps taps; /* of the first position */
    etd_axis_steps steps;
} etd_stretch;

static etd_taps taps_at(const etd_axis *axis, const etd_stretch *stretch, bool transposed, int32_t position) {
    return transposed ? etd_transposed_taps(axis, &stretch->steps, position) : etd_axis_taps(axis, position);
}

/* Sets the stretch that begins at an output position. */
static void start_stretch(const etd_axis *axis, bool transposed, int32_t first, etd_stretch *stretch) {
    const int32_t step = stretch->steps.out;
    stretch->first = first;
    stretch->count = 1;
    stretch->taps = taps_at(axis, stretch, transposed, first);
    for (int32_t at = first + step; at < axis->out; at += step) {
        const etd_taps taps = taps_at(axis, stretch, transposed, at);
        if (taps.first != stretch->taps.first || taps.count != stretch->taps.count) {
            break;
        }
        stretch->count++;
    }
}

/* Sets the next stretch of an axis, at first the first one. Returns false behind the last one. A transposed
 * convolution has one row of stretches after the other, as many as the stride. */
static bool next_stretch(const etd_axis *axis, bool transposed, etd_stretch *stretch) {
    int32_t first = 0;
    if (stretch->count == 0) {
        stretch->steps = etd_steps_of(axis, transposed);
    } else {
        const int32_t step = stretch->steps.out;
        first = stretch->first + stretch->count * step;
        if (first >= axis->out) {
            first = first % step + 1;
            if (first >= step || first >= axis->out) {
                return false;
            }
        }
    }
    start_stretch(axis, transposed, first, stretch);
    return true;
}

/* Computes all channels at the positions of two stretches, for which every sum has the same taps. */
static void convolve_area(const etd_convolution *conv, int32_t image, const etd_stretch *y,
                          const etd_stretch *x) {
    const etd_window *window = &conv->window;
    const int32_t *from = window->input->strides;
    const int32_t *to = window->out->strides;
    const int32_t *w = conv->weight.strides;
    const int32_t per_group = conv->per_group;
    const etd_sum_loop loops[ETD_SUM_LOOPS] = {
        {conv->channels, w[conv->transposed ? 0 : 1], from[1]},
        {y->taps.count, y->steps.tap * w[2], etd_scale_step(from[2], y->steps.source)},
        {x->taps.count, x->steps.tap * w[3], etd_scale_step(from[3], x->steps.source)},
    };
    etd_float_products products = {
        .a = etd_floats(&conv->weight) + y->taps.first * w[2] + x->taps.first * w[3],
        .b = etd_floats(window->input) + image * from[0] + y->taps.start * from[2] + x->taps.start * from[3],
        .out = etd_out_floats(window->out) + image * to[0] + y->first * to[2] + x->first * to[3],
        .added = conv->bias != NULL ? etd_floats(conv->bias) : NULL,
        .alpha = 1.0f,
        .beta = 1.0f,
        .a_row = {per_group, w[conv->transposed ? 1 : 0], to[1], 1},
        .b_rows = {y->count, etd_scale_step(from[2], y->steps.in), etd_scale_step(to[2], y->steps.out), 0},
        .b_columns = {x->count, etd_scale_step(from[3], x->steps.in), etd_scale_step(to[3], x->steps.out), 0},
        .batch = {conv->groups, conv->weight.sizes[0] / conv->groups * w[0], conv->channels * from[1],
                  per_group * to[1], per_group},
    };
    etd_set_sum_loops(&products, loops);
    etd_compute_products(&products);
}

static void convolve(const etd_convolution *conv) {
    for (int32_t image = 0; image < conv->window.out->sizes[0]; image++) {
        etd_stretch y = {0};
        while (next_stretch(&conv->window.y, conv->transposed, &y)) {
            etd_stretch x = {0};
            while (next_stretch(&conv->window.x, conv->transposed, &x)) {
                convolve_area(conv, image, &y, &x);
            }
        }
    }
}

static const char *convolution(const etd_call *call) {
    etd_convolution conv;
    const etd_tensor *input = etd_arg_tensor(call, 0);
    if (input != NULL && input->ndim == 5) {
        return etd_convolve_volumes(call);
    }
    const char *refusal = read_arguments(call, &conv);
    if (refusal == NULL) {
        convolve(&conv);
    }
    return refusal;
}

const etd_kernel etd_aten_convolution = {"aten::convolution", "out", "native_call_convolution.out",
                                         ETD_IN_FLOAT32 + 10, convolution};
