// SPDX-License-Identifier: Apache-2.0
#include "../kernels.h"
#include "../support/arguments.h"
#include "../support/int8_taps.h"
#include "../support/requantize.h"
#include "../support/window.h"

/* Most elements of a kernel, so that a sum of int8 fits an int32. */
#define KERNEL_MAX (1 << 23)

/* quantized_avg_pool2d(input, kernel_size, stride, padding, ceil_mode, zero_point, multiplier, shift,
 * scratch, *, out) */
static const char *read_arguments(const etd_call *call, etd_layout layout, etd_window *window) {
    bool ceil_mode;
    int32_t unused; /* input and output have the same zero point and scale */
    if (!etd_read_images(call, 0, 9, ETD_CHAR, layout, window)) {
        return "supports only int8 in two spatial dimensions";
    }
    if (!etd_arg_bool(call, 4, &ceil_mode)) {
        return "invalid ceil_mode";
    }
    if (!etd_arg_int(call, 5, INT8_MIN, INT8_MAX, &unused) || !etd_arg_int(call, 6, 1, INT32_MAX, &unused) ||
        !etd_arg_int(call, 7, ETD_SHIFT_MIN, ETD_SHIFT_MAX, &unused)) {
        return "invalid quantization parameters";
    }
    const char *refusal = etd_read_pool_axes(call, ceil_mode, window);
    if (refusal == NULL && (int64_t)window->y.kernel * window->x.kernel > KERNEL_MAX) {
        return "supports only kernels of up to 2^23 elements";
    }
    return refusal;
}

/* Channels whose sums fit the stack. */
#define BLOCK 16

/* Computes the means of a patch as CMSIS-NN's arm_avgpool_s8: of the elements in the image, in integers, with
 * ties away from zero. */
static void pool_position(const void *context, const etd_patch *patch, int32_t from, int32_t to) {
    const etd_window *window = context;
    const int32_t *strides = window->input->strides;
    const etd_grid taps = {patch->y.count, patch->x.count, strides[2], strides[3], 0, 0};
    const int32_t count = patch->y.count * patch->x.count;
    const int32_t half = count / 2;
    const int32_t step = window->out->strides[1]; /* a copy, which no output can overwrite */
    int8_t *y = etd_out_int8s(window->out) + to;
    int32_t together = strides[1] == 1 ? BLOCK : 1;
    for (int32_t left = window->input->sizes[1]; left > 0; left -= together) {
        int32_t sums[BLOCK];
        together = left < together ? left : together;
        etd_add_up(etd_int8s(window->input) + from, &taps, sums, together);
        for (int32_t i = 0; i < together; i++) {
            *y = (int8_t)((sums[i] > 0 ? sums[i] + half : sums[i] - half) / count);
            y += step;
        }
        from += together * strides[1];
    }
}

static const char *run(const etd_call *call, etd_layout layout) {
    etd_window window;
    const char *refusal = read_arguments(call, layout, &window);
    if (refusal == NULL) {
        etd_slide(&window, pool_position, &window);
    }
    return refusal;
}

static const char *quantized_avg_pool2d(const etd_call *call) {
    return run(call, ETD_NCHW);
}

static const char *quantized_avg_pool2d_nhwc(const etd_call *call) {
    return run(call, ETD_NHWC);
}

const etd_kernel etd_cortex_m_avg_pool2d = {"cortex_m::quantized_avg_pool2d", "out",
                                            "native_call_quantized_avg_pool2d.out", 10, quantized_avg_pool2d};
const etd_kernel etd_cortex_m_avg_pool2d_nhwc = {"cortex_m::quantized_avg_pool2d_nhwc", "out",
                                                 "native_call_quantized_avg_pool2d_nhwc.out", 10,
                                                 quantized_avg_pool2d_nhwc};
