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

/* An input and an output image (both N, C, H, W) and the window between them. */
typedef struct {
    const et_tensor *input;
    const et_tensor *out;
    et_axis y;
    et_axis x;
    et_tensor views[2]; /* room for images whose dimensions are in another order */
} et_window;

/* The order in which an operator names an image's dimensions. */
typedef enum { ET_NCHW, ET_NHWC } et_layout;

/* Reads the input and output images from arguments; false unless both have four dimensions, elements of this
 * type, and memory. Whichever the operator's layout, the window sees them as N, C, H, W; it stays where it
 * is. */
bool et_read_images(const et_call *call, uint32_t input, uint32_t out, uint8_t dtype, et_layout layout,
                    et_window *window);

/* Whether the numbers are in range and give this output size; ceil_mode rounds it up. */
bool et_axis_is_sound(const et_axis *axis, bool ceil_mode);

et_taps et_axis_taps(const et_axis *axis, int32_t position);

/* Fills both axes of a 2-d convolution from the arguments stride, padding and dilation, which all such
 * operators have at 3, 4 and 5. Returns why it refuses, or NULL. */
const char *et_read_conv_axes(const et_call *call, int32_t kernel_y, int32_t kernel_x, et_window *window);

/* The same for a 1-d convolution, of a line seen as an image with a single row. */
const char *et_read_conv_line(const et_call *call, int32_t kernel, et_window *window);

/* A line (N, C, X) as an image with a single row. */
et_tensor et_as_image(const et_tensor *line);

/* Fills both axes of 2-d pooling from the arguments kernel_size, stride (an empty one means the kernel's
 * size) and padding, which all such operators have at 1, 2 and 3. Returns why it refuses, or NULL; without
 * dilation no patch is empty then. */
const char *et_read_pool_axes(const et_call *call, bool ceil_mode, et_window *window);
const char *et_read_dilated_pool_axes(const et_call *call, const int32_t dilation[2], bool ceil_mode,
                                      et_window *window);

/* Whether the tensor has elements of this type, and is an image with channels or a batch of such. */
bool et_is_image(const et_tensor *tensor, uint8_t dtype);

/* The tensor, or an image without N as a batch of one. */
et_tensor et_as_batch(const et_tensor *tensor);

/* Computes all channels of one output position. `from` is where channel 0 has the patch's first tap in the
 * input, `to` where it has the position in the output, in elements. */
typedef void (*et_position_fn)(const void *context, const et_patch *patch, int32_t from, int32_t to);

/* Calls `compute` for every output position of every image. */
void et_slide(const et_window *window, et_position_fn compute, const void *context);

#endif
