// SPDX-License-Identifier: Apache-2.0
/* Reads and checks arguments of kernels.
 *
 * Functions that return a tensor return NULL if the argument is not a tensor in memory. Functions that return
 * bool return false if the argument has another type or is out of range. Checks of tensors accept NULL and
 * fail, so a kernel can check several arguments in one expression. */
#ifndef ETD_ARGUMENTS_H
#define ETD_ARGUMENTS_H

#include "etd_kernel.h"

const etd_tensor *etd_arg_tensor(const etd_call *call, uint32_t i);
etd_tensor *etd_arg_out(const etd_call *call,
                        uint32_t i); /* rejects constants, because the file must not be written */
bool etd_arg_is_none(const etd_call *call, uint32_t i);
bool etd_arg_bool(const etd_call *call, uint32_t i, bool *value);
bool etd_arg_int(const etd_call *call, uint32_t i, int32_t min, int32_t max, int32_t *value);
bool etd_arg_int64(const etd_call *call, uint32_t i, int64_t *value);

/* Returns true if the argument is the string `text`. */
bool etd_arg_is_text(const etd_call *call, uint32_t i, const char *text);

/* Reads a PyTorch scalar, an int or a float. */
bool etd_arg_number(const etd_call *call, uint32_t i, double *value);

/* As etd_arg_number, rounded to float32. */
bool etd_arg_float(const etd_call *call, uint32_t i, float *value);

/* Reads a dimension of a tensor; negative ones count from the last. */
bool etd_arg_dim(const etd_call *call, uint32_t i, uint8_t ndim, uint8_t *dim);

/* As etd_arg_dim; a tensor without dimensions has dimension 0 all the same. */
bool etd_arg_wrapped_dim(const etd_call *call, uint32_t i, uint8_t ndim, uint8_t *dim);

/* Reads a list of at most ETD_MAX_DIMS different dimensions. */
bool etd_arg_dims(const etd_call *call, uint32_t i, uint8_t ndim, uint8_t dims[ETD_MAX_DIMS], uint8_t *count);

/* Reads one int for both spatial axes, or a list of two: y, x. */
bool etd_arg_pair(const etd_call *call, uint32_t i, int32_t min, int32_t max, int32_t pair[2]);

/* Returns the length of an int or tensor list, or UINT32_MAX, which no list has, for other types. */
uint32_t etd_arg_list_count(const etd_call *call, uint32_t i);

/* Reads item `item` of an int list. */
bool etd_arg_list_int(const etd_call *call, uint32_t i, uint32_t item, int32_t min, int32_t max,
                      int32_t *value);

/* Returns the value where a kernel writes a number or a boolean; NULL for other types. */
etd_value *etd_arg_result(const etd_call *call, uint32_t i);

/* Reads the sizes of a view of the input. One of them may be -1 and is computed from the others. Returns
 * false if the number of elements differs. */
bool etd_arg_view_sizes(const etd_call *call, uint32_t i, const etd_tensor *input,
                        int32_t sizes[ETD_MAX_DIMS], uint32_t *ndim);

/* Returns item `item` of a tensor list. */
const etd_tensor *etd_arg_list_tensor(const etd_call *call, uint32_t i, uint32_t item);

/* As etd_arg_list_tensor, for outputs; rejects constants. */
etd_tensor *etd_arg_list_out(const etd_call *call, uint32_t i, uint32_t item);

/* Returns true if item `item` of a tensor list is None. */
bool etd_arg_list_is_none(const etd_call *call, uint32_t i, uint32_t item);

/* Reads item `item` of a list of floats. */
bool etd_arg_list_float(const etd_call *call, uint32_t i, uint32_t item, double *value);

uint32_t etd_numel(const etd_tensor *tensor);

/* Returns true if the tensor has elements of this type. */
bool etd_is_type(const etd_tensor *tensor, uint8_t dtype);

/* As etd_is_type; the tensor must also have `ndim` dimensions and at least one element. */
bool etd_is(const etd_tensor *tensor, uint8_t dtype, uint8_t ndim);

/* As etd_is, but the first dimension may have size 0: an empty batch. */
bool etd_is_batch(const etd_tensor *tensor, uint8_t dtype, uint8_t ndim);

/* Returns true if the tensor holds `count` contiguous elements of this type, in any shape: exporters also
 * write one number per channel or row as [1, N]. */
bool etd_has_elements(const etd_tensor *tensor, uint8_t dtype, int32_t count);

/* Returns true if elements with the same indexes have the same memory offset. */
bool etd_same_layout(const etd_tensor *a, const etd_tensor *b);

/* Returns true if elements are stored in the order of their indexes. */
bool etd_is_contiguous(const etd_tensor *tensor);

/* Returns true if both have the same sizes. */
bool etd_same_shape(const etd_tensor *a, const etd_tensor *b);

/* Resizes the output to the input's sizes. Returns false if that is not possible. */
bool etd_resize_like(etd_tensor *out, const etd_tensor *input);

/* As etd_resize_like; the output must then also have the input's memory layout. */
bool etd_take_layout(etd_tensor *out, const etd_tensor *input);

/* Widens a shape, a tensor with sizes alone, to what it and the tensor broadcast to. Returns false if they do
 * not broadcast to each other. Start with {0}. */
bool etd_broadcast_shape(etd_tensor *shape, const etd_tensor *tensor);

/* Resizes the output to the sizes that both inputs broadcast to. */
bool etd_resize_broadcast(etd_tensor *out, const etd_tensor *a, const etd_tensor *b);

static inline const float *etd_floats(const etd_tensor *tensor) {
    return (const float *)(const void *)tensor->data;
}

static inline float *etd_out_floats(const etd_tensor *tensor) {
    return (float *)(void *)tensor->data;
}

static inline const int8_t *etd_int8s(const etd_tensor *tensor) {
    return (const int8_t *)(const void *)tensor->data;
}

static inline int8_t *etd_out_int8s(const etd_tensor *tensor) {
    return (int8_t *)(void *)tensor->data;
}

static inline const int16_t *etd_int16s(const etd_tensor *tensor) {
    return (const int16_t *)(const void *)tensor->data;
}

static inline int16_t *etd_out_int16s(const etd_tensor *tensor) {
    return (int16_t *)(void *)tensor->data;
}

static inline const int32_t *etd_int32s(const etd_tensor *tensor) {
    return (const int32_t *)(const void *)tensor->data;
}

#endif
