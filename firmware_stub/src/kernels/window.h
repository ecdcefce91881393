/* The window that convolution and pooling slide over an image, one axis at a time. */
#ifndef ET_WINDOW_H
#define ET_WINDOW_H

#include "arguments.h"

/* Limit of all of an axis's numbers: keeps positions far from overflow. */
#define ET_AXIS_MAX (1 << 20)

typedef struct {
    int32_t in;  /* input size */
    int32_t out; /* output size */
    int32_t kernel;
    int32_t stride;
    int32_t pad; /* at both ends */
    int32_t dilation;
} et_axis;

/* Which of the kernel's taps fall into the input at one output position. */
typedef struct {
    int32_t first;
    int32_t count;
    int32_t start; /* input position of the first */
} et_taps;

/* The part of the kernel that falls into the input at one output position. */
typedef struct {
    et_taps y;
    et_taps x;
} et_patch;

/* The order in which an operator names an image's dimensions; the last two lack N, or a spatial dimension. */
typedef enum { ET_NCHW, ET_NHWC, ET_CHW, ET_NCX } et_layout;

/* An input and an output image, and the window between them. It stays where it is. */
typedef struct {
    const et_tensor *input; /* N, C, H, W, whichever the operator's layout */
    const et_tensor *out;   /* the same */
    et_axis y;
    et_axis x;
    et_layout layout;
    et_tensor views[2]; /* the images as above */
    et_tensor *result;  /* the output as the operator has it */
} et_window;

/* The tensor as N, C, H, W, where dimensions that it lacks have one element. */
et_tensor et_as_images(const et_tensor *tensor, et_layout layout);

/* Reads the input and output images from arguments; false unless both have the layout's dimensions and
 * elements of this type, and the input is not empty. */
bool et_read_images(const et_call *call, uint32_t input, uint32_t out, uint8_t dtype, et_layout layout,
                    et_window *window);

/* The same for an image with channels or a batch of such. */
bool et_read_image_or_batch(const et_call *call, uint32_t out, uint8_t dtype, et_window *window);

/* Gives the output image so many channels, and the sizes that the axes say. */
bool et_resize_images(et_window *window, int32_t channels);

et_taps et_axis_taps(const et_axis *axis, int32_t position);

/* Fills both axes of a convolution from the arguments stride, padding and dilation, which all such operators
 * have at 3, 4 and 5, and resizes the output. A line (ET_NCX) is seen as an image with a single row. Returns
 * why it refuses, or NULL. */
const char *et_read_conv_axes(const et_call *call, int32_t kernel_y, int32_t kernel_x, int32_t channels,
                              et_window *window);

/* The same for 2-d pooling from the arguments kernel_size, stride (an empty one means the kernel's size) and
 * padding, which all such operators have at 1, 2 and 3; ceil_mode rounds the output's sizes up. Without
 * dilation no patch is empty then. */
const char *et_read_pool_axes(const et_call *call, bool ceil_mode, et_window *window);
const char *et_read_dilated_pool_axes(const et_call *call, const int32_t dilation[2], bool ceil_mode,
                                      et_window *window);

/* Computes all channels of one output position. `from` is where channel 0 has the patch's first tap in the
 * input, `to` where it has the position in the output, in elements. */
typedef void (*et_position_fn)(const void *context, const et_patch *patch, int32_t from, int32_t to);

/* Calls `compute` for every output position of every image. */
void et_slide(const et_window *window, et_position_fn compute, const void *context);

/* The same for every channel there: `from` and `to` are its elements. */
void et_slide_channels(const et_window *window, et_position_fn compute, const void *context);

#endif
