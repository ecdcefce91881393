// SPDX-License-Identifier: Apache-2.0
/* The window that convolution and pooling slide over an image, one axis at a time. */
#ifndef ETD_WINDOW_H
#define ETD_WINDOW_H

#include "arguments.h"

/* Upper limit of all numbers of an axis, so that positions cannot overflow. */
#define ETD_AXIS_MAX (1 << 20)

typedef struct {
    int32_t in;  /* input size */
    int32_t out; /* output size */
    int32_t kernel;
    int32_t stride; /* 0: adaptive, the outputs share the input among them */
    int32_t pad;    /* at both ends */
    int32_t dilation;
} etd_axis;

/* The kernel's taps that lie in the input at one output position. */
typedef struct {
    int32_t first;
    int32_t count;
    int32_t start; /* input position of the first tap */
} etd_taps;

/* The part of the kernel that lies in the input at one output position. */
typedef struct {
    etd_taps y;
    etd_taps x;
} etd_patch;

/* The order of an image's dimensions in an operator. CHW has no N; NCX has one spatial dimension. */
typedef enum { ETD_NCHW, ETD_NHWC, ETD_CHW, ETD_NCX } etd_layout;

/* An input and an output image, and the window between them. Contains pointers to itself, so it must not be
 * moved. */
typedef struct {
    const etd_tensor *input; /* as N, C, H, W */
    const etd_tensor *out;   /* as N, C, H, W */
    etd_axis y;
    etd_axis x;
    etd_layout layout;
    etd_tensor views[2]; /* the images as N, C, H, W */
    etd_tensor *result;  /* the output in the operator's layout */
} etd_window;

/* Returns the tensor as N, C, H, W. Missing dimensions have size 1. */
etd_tensor etd_as_images(const etd_tensor *tensor, etd_layout layout);

/* Reads the input and output images from arguments. Returns false unless both have the layout's dimensions
 * and elements of this type, and the images are not empty; a batch may be. */
bool etd_read_images(const etd_call *call, uint32_t input, uint32_t out, uint8_t dtype, etd_layout layout,
                     etd_window *window);

/* As etd_read_images, for an image with channels or a batch of such images. */
bool etd_read_image_or_batch(const etd_call *call, uint32_t out, uint8_t dtype, etd_window *window);

/* Resizes the output image to `channels` and the sizes of the axes. */
bool etd_resize_images(etd_window *window, int32_t channels);

/* Computes the output's size. Returns false if a number is out of range or the kernel does not fit. */
bool etd_measure_axis(etd_axis *axis, bool ceil_mode);

etd_taps etd_axis_taps(const etd_axis *axis, int32_t position);

/* Fills in both axes of a convolution from stride, padding and dilation (arguments 3, 4 and 5 of all such
 * operators) and resizes the output. A line (ETD_NCX) is treated as an image with one row. Returns NULL, or a
 * message if not supported. */
const char *etd_read_conv_axes(const etd_call *call, int32_t kernel_y, int32_t kernel_x, int32_t channels,
                               etd_window *window);

/* As etd_read_conv_axes, for a transposed convolution: the input slides over the output, and output_padding
 * (argument `padding_at`) adds to its sizes. Dilation is argument `dilation_at`. */
const char *etd_read_transposed_axes(const etd_call *call, int32_t kernel_y, int32_t kernel_x,
                                     int32_t channels, uint32_t padding_at, uint32_t dilation_at,
                                     etd_window *window);

/* The steps along an axis of a convolution: those of the input and the output between positions that see the
 * same taps of the kernel, and those of the kernel and the input between these taps. */
typedef struct {
    int32_t out;
    int32_t in;
    int32_t tap;
    int32_t source;
} etd_axis_steps;

etd_axis_steps etd_steps_of(const etd_axis *axis, bool transposed);

/* As etd_axis_taps, of a transposed convolution: the input's positions run backward. */
etd_taps etd_transposed_taps(const etd_axis *axis, const etd_axis_steps *steps, int32_t position);

/* Fills in both axes of adaptive pooling from the output's size (argument 1). */
const char *etd_read_adaptive_axes(const etd_call *call, etd_window *window);

/* Fills in both axes of 2-d pooling from kernel_size, stride (if empty: the kernel's size) and padding
 * (arguments 1, 2 and 3 of all such operators). ceil_mode rounds the output's sizes up. Without dilation no
 * patch is empty. */
const char *etd_read_pool_axes(const etd_call *call, bool ceil_mode, etd_window *window);
const char *etd_read_dilated_pool_axes(const etd_call *call, const int32_t dilation[2], bool ceil_mode,
                                       etd_window *window);

/* Computes all channels of one output position. `from` is the offset of channel 0 at the patch's first tap in
 * the input, `to` its offset in the output, in elements. */
typedef void (*etd_position_fn)(const void *context, const etd_patch *patch, int32_t from, int32_t to);

/* Calls `compute` for every output position of every image. */
void etd_slide(const etd_window *window, etd_position_fn compute, const void *context);

#endif
