// SPDX-License-Identifier: Apache-2.0
/* How kernels read and check their arguments.
 *
 * Functions that return a tensor return NULL when the argument is not one with memory behind it; those that
 * return bool return false when it has not the kind or range asked for. The checks of tensors take NULL for a
 * tensor that fails, so that a kernel can check what it got in one expression. */
#ifndef ETD_ARGUMENTS_H
#define ETD_ARGUMENTS_H

#include "etd_kernel.h"

const etd_tensor *etd_arg_tensor(const etd_call *call, uint32_t i);
etd_tensor *etd_arg_out(const etd_call *call, uint32_t i); /* refuses constants: nothing writes to the file */
bool etd_arg_is_none(const etd_call *call, uint32_t i);
bool etd_arg_bool(const etd_call *call, uint32_t i, bool *value);
bool etd_arg_int(const etd_call *call, uint32_t i, int32_t min, int32_t max, int32_t *value);
bool etd_arg_int64(const etd_call *call, uint32_t i, int64_t *value);

/* Whether it is the string `text`. */
bool etd_arg_is_text(const etd_call *call, uint32_t i, const char *text);

/* A PyTorch scalar: an int or a float. */
bool etd_arg_number(const etd_call *call, uint32_t i, double *value);

/* A dimension of a tensor; negative ones count from the last. */
bool etd_arg_dim(const etd_call *call, uint32_t i, uint8_t ndim, uint8_t *dim);

/* A list of at most ETD_MAX_DIMS dimensions, none named twice. */
bool etd_arg_dims(const etd_call *call, uint32_t i, uint8_t ndim, uint8_t dims[ETD_MAX_DIMS], uint8_t *count);

/* One int for both spatial axes, or one each: y, x. */
bool etd_arg_pair(const etd_call *call, uint32_t i, int32_t min, int32_t max, int32_t pair[2]);

/* How many items an int or tensor list has; UINT32_MAX, more than any list has, when it is no list. */
uint32_t etd_arg_list_count(const etd_call *call, uint32_t i);

/* Item `item` of an int list. */
bool etd_arg_list_int(const etd_call *call, uint32_t i, uint32_t item, int32_t min, int32_t max,
                      int32_t *value);

/* Where a kernel writes a number or a truth value. NULL for a value of another kind: others rely on those. */
etd_value *etd_arg_result(const etd_call *call, uint32_t i);

/* The sizes that a view of the input is asked to have; one of them may be -1, for whatever the others leave.
 * False unless they make as many elements. */
bool etd_arg_view_sizes(const etd_call *call, uint32_t i, const etd_tensor *input,
                        int32_t sizes[ETD_MAX_DIMS], uint32_t *ndim);

/* Item `item` of a tensor list. */
const etd_tensor *etd_arg_list_tensor(const etd_call *call, uint32_t i, uint32_t item);

/* The same for a list of outputs, which are no constants. */
etd_tensor *etd_arg_list_out(const etd_call *call, uint32_t i, uint32_t item);

/* Whether item `item` of a tensor list is none. */
bool etd_arg_list_is_none(const etd_call *call, uint32_t i, uint32_t item);

/* Item `item` of a list of floats. */
bool etd_arg_list_float(const etd_call *call, uint32_t i, uint32_t item, double *value);

uint32_t etd_numel(const etd_tensor *tensor);

/* Whether the tensor has elements of this type. */
bool etd_is_type(const etd_tensor *tensor, uint8_t dtype);

/* Whether it has besides so many dimensions and at least one element. */
bool etd_is(const etd_tensor *tensor, uint8_t dtype, uint8_t ndim);

/* Whether it holds so many elements of this type, one after another. Of whatever shape: what kernels take as
 * one number per channel or row, exporters also make as [1, N]. */
bool etd_has_elements(const etd_tensor *tensor, uint8_t dtype, int32_t count);

/* Whether elements with the same indexes have the same place in memory, counted in elements. */
bool etd_same_layout(const etd_tensor *a, const etd_tensor *b);

/* Whether elements are in the order of their indexes. */
bool etd_is_contiguous(const etd_tensor *tensor);

/* Whether both have the same sizes. */
bool etd_same_shape(const etd_tensor *a, const etd_tensor *b);

/* Gives the output the input's sizes; false when it cannot have them. */
bool etd_resize_like(etd_tensor *out, const etd_tensor *input);

/* The same for an output whose elements must then be in the places of the input's. */
bool etd_take_layout(etd_tensor *out, const etd_tensor *input);

/* Gives the output the sizes that two inputs broadcast to. */
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
