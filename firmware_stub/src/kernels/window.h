// SPDX-License-Identifier: Apache-2.0
/* The window that convolution and pooling slide over an image, one axis at a time. */
#ifndef ETD_WINDOW_H
#define ETD_WINDOW_H

#include "arguments.h"

/* Limit of all of an axis's numbers: keeps positions far from overflow. */
#define ETD_AXIS_MAX (1 << 20)

typedef struct {
    int32_t in;  /* input size */
    int32_t out; /* output size */
    int32_t kernel;
    int32_t stride;
    int32_t pad; /* at both ends */
    int32_t dilation;
} etd_axis;

/* Which of the kernel's taps fall into the input at one output position. */
typedef struct {
    int32_t first;
    int32_t count;
    int32_t start; /* input position of the first */
} etd_taps;

/* The part of the kernel that falls into the input at one output position. */
typedef struct {
    etd_taps y;
    etd_taps x;
} etd_patch;

/* The order in which an operator names an image's dimensions; the last two lack N, or a spatial dimension. */
typedef enum { ETD_NCHW, ETD_NHWC, ETD_CHW, ETD_NCX } etd_layout;

/* An input and an output image, and the window between them. It stays where it is. */
typedef struct {
    const etd_tensor *input; /* N, C, H, W, whichever the operator's layout */
    const etd_tensor *out;   /* the same */
    etd_axis y;
    etd_axis x;
    etd_layout layout;
    etd_tensor views[2]; /* the images as above */
    etd_tensor *result;  /* the output as the operator has it */
} etd_window;

/* The tensor as N, C, H, W, where dimensions that it lacks have one element. */
etd_tensor etd_as_images(const etd_tensor *tensor, etd_layout layout);

/* Reads the input and output images from arguments; false unless both have the layout's dimensions and
 * elements of this type, and the input is not empty. */
bool etd_read_images(const etd_call *call, uint32_t input, uint32_t out, uint8_t dtype, etd_layout layout,
                     etd_window *window);

/* The same for an image with channels or a batch of such. */
bool etd_read_image_or_batch(const etd_call *call, uint32_t out, uint8_t dtype, etd_window *window);

/* Gives the output image so many channels, and the sizes that the axes say. */
bool etd_resize_images(etd_window *window, int32_t channels);

etd_taps etd_axis_taps(const etd_axis *axis, int32_t position);

/* Fills both axes of a convolution from the arguments stride, padding and dilation, which all such operators
 * have at 3, 4 and 5, and resizes the output. A line (ETD_NCX) is seen as an image with a single row. Returns
 * why it refuses, or NULL. */
const char *etd_read_conv_axes(const etd_call *call, int32_t kernel_y, int32_t kernel_x, int32_t channels,
                               etd_window *window);

/* The same for a transposed convolution, whose other arguments stand elsewhere: the input slides over the
 * output, and output_padding adds to its sizes. */
const char *etd_read_transposed_axes(const etd_call *call, int32_t kernel_y, int32_t kernel_x,
                                     int32_t channels, uint32_t padding_at, uint32_t dilation_at,
                                     etd_window *window);

/* The input position that a tap of the transposed kernel takes to this output position; -1 for none. */
int32_t etd_axis_source(const etd_axis *axis, int32_t out, int32_t tap);

/* The same for 2-d pooling from the arguments kernel_size, stride (an empty one means the kernel's size) and
 * padding, which all such operators have at 1, 2 and 3; ceil_mode rounds the output's sizes up. Without
 * dilation no patch is empty then. */
const char *etd_read_pool_axes(const etd_call *call, bool ceil_mode, etd_window *window);
const char *etd_read_dilated_pool_axes(const etd_call *call, const int32_t dilation[2], bool ceil_mode,
                                       etd_window *window);

/* Computes all channels of one output position. `from` is where channel 0 has the patch's first tap in the
 * input, `to` where it has the position in the output, in elements. */
typedef void (*etd_position_fn)(const void *context, const etd_patch *patch, int32_t from, int32_t to);

/* Calls `compute` for every output position of every image. */
void etd_slide(const etd_window *window, etd_position_fn compute, const void *context);

/* The same for every channel there: `from` and `to` are its elements. */
void etd_slide_channels(const etd_window *window, etd_position_fn compute, const void *context);

#endif
