/* How kernels read and check their arguments.
 *
 * Functions that return a tensor return NULL when the argument is not one with memory behind it; those that
 * return bool return false when it has not the kind or range asked for. The checks of tensors take NULL for a
 * tensor that fails, so that a kernel can check what it got in one expression. */
#ifndef ET_ARGUMENTS_H
#define ET_ARGUMENTS_H

#include "et_kernel.h"

const et_tensor *et_arg_tensor(const et_call *call, uint32_t i);
et_tensor *et_arg_out(const et_call *call, uint32_t i); /* refuses constants: nothing writes to the file */
bool et_arg_is_none(const et_call *call, uint32_t i);
bool et_arg_bool(const et_call *call, uint32_t i, bool *value);
bool et_arg_int(const et_call *call, uint32_t i, int32_t min, int32_t max, int32_t *value);
bool et_arg_int64(const et_call *call, uint32_t i, int64_t *value);

/* Whether it is the string `text`. */
bool et_arg_is_text(const et_call *call, uint32_t i, const char *text);

/* A PyTorch scalar: an int or a float. */
bool et_arg_number(const et_call *call, uint32_t i, double *value);

/* A dimension of a tensor; negative ones count from the last. */
bool et_arg_dim(const et_call *call, uint32_t i, uint8_t ndim, uint8_t *dim);

/* A list of at most ET_MAX_DIMS dimensions, none named twice. */
bool et_arg_dims(const et_call *call, uint32_t i, uint8_t ndim, uint8_t dims[ET_MAX_DIMS], uint8_t *count);

/* One int for both spatial axes, or one each: y, x. */
bool et_arg_pair(const et_call *call, uint32_t i, int32_t min, int32_t max, int32_t pair[2]);

/* How many items an int or tensor list has; UINT32_MAX, more than any list has, when it is no list. */
uint32_t et_arg_list_count(const et_call *call, uint32_t i);

/* Item `item` of an int list. */
bool et_arg_list_int(const et_call *call, uint32_t i, uint32_t item, int32_t min, int32_t max,
                     int32_t *value);

/* Where a kernel writes a number or a truth value. NULL for a value of another kind: others rely on those. */
et_value *et_arg_result(const et_call *call, uint32_t i);

/* The sizes that a view of the input is asked to have; one of them may be -1, for whatever the others leave.
 * False unless they make as many elements. */
bool et_arg_view_sizes(const et_call *call, uint32_t i, const et_tensor *input, int32_t sizes[ET_MAX_DIMS],
                       uint32_t *ndim);

/* Item `item` of a tensor list. */
const et_tensor *et_arg_list_tensor(const et_call *call, uint32_t i, uint32_t item);

uint32_t et_numel(const et_tensor *tensor);

/* Whether the tensor has elements of this type. */
bool et_is_type(const et_tensor *tensor, uint8_t dtype);

/* Whether it has besides so many dimensions and at least one element. */
bool et_is(const et_tensor *tensor, uint8_t dtype, uint8_t ndim);

/* Whether it holds so many elements of this type, one after another. Of whatever shape: what kernels take as
 * one number per channel or row, exporters also make as [1, N]. */
bool et_has_elements(const et_tensor *tensor, uint8_t dtype, int32_t count);

/* Whether elements with the same indexes have the same place in memory, counted in elements. */
bool et_same_layout(const et_tensor *a, const et_tensor *b);

/* Whether elements are in the order of their indexes. */
bool et_is_contiguous(const et_tensor *tensor);

/* Whether both have the same sizes. */
bool et_same_shape(const et_tensor *a, const et_tensor *b);

/* Gives the output the input's sizes; false when it cannot have them. */
bool et_resize_like(et_tensor *out, const et_tensor *input);

/* The same for an output whose elements must then be in the places of the input's. */
bool et_take_layout(et_tensor *out, const et_tensor *input);

/* Gives the output the sizes that two inputs broadcast to. */
bool et_resize_broadcast(et_tensor *out, const et_tensor *a, const et_tensor *b);

static inline const float *et_floats(const et_tensor *tensor) {
    return (const float *)(const void *)tensor->data;
}

static inline float *et_out_floats(const et_tensor *tensor) {
    return (float *)(void *)tensor->data;
}

static inline const int8_t *et_int8s(const et_tensor *tensor) {
    return (const int8_t *)(const void *)tensor->data;
}

static inline int8_t *et_out_int8s(const et_tensor *tensor) {
    return (int8_t *)(void *)tensor->data;
}

static inline const int16_t *et_int16s(const et_tensor *tensor) {
    return (const int16_t *)(const void *)tensor->data;
}

static inline int16_t *et_out_int16s(const et_tensor *tensor) {
    return (int16_t *)(void *)tensor->data;
}

static inline const int32_t *et_int32s(const et_tensor *tensor) {
    return (const int32_t *)(const void *)tensor->data;
}

#endif
