// SPDX-License-Identifier: Apache-2.0
/* Dynamic shapes: changes sizes within the bounds stated in the file. */
#include <string.h>

#include "etd_bytes.h"
#include "etd_kernel.h"
#include "loader.h"

void etd_set_strides(etd_tensor *tensor) {
    int32_t stride = 1;
    for (uint32_t i = tensor->ndim; i-- > 0;) {
        const uint8_t dim = tensor->dim_order[i];
        tensor->strides[dim] = stride;
        stride *= tensor->sizes[dim] == 0 ? 1 : tensor->sizes[dim];
    }
}

/* Counts the elements. Returns false if there are too many. A size of 0 does not hide another size that is
 * too large, as in loading. */
static bool count_elements(const int32_t *sizes, uint32_t ndim, uint32_t largest, uint32_t *numel) {
    uint64_t extent = 1;
    bool empty = false;
    for (uint32_t d = 0; d < ndim; d++) {
        if (sizes[d] < 0) {
            return false;
        }
        empty = empty || sizes[d] == 0;
        extent *= sizes[d] == 0 ? 1u : (uint32_t)sizes[d];
        if (extent > largest) {
            return false;
        }
    }
    *numel = empty ? 0 : (uint32_t)extent;
    return true;
}

bool etd_resize(etd_tensor *tensor, const int32_t *sizes, uint32_t ndim) {
    uint32_t numel;
    if (ndim != tensor->ndim) {
        return false;
    }
    if (memcmp(sizes, tensor->sizes, ndim * sizeof *sizes) == 0) {
        return true;
    }
    const uint32_t element = etd_element_size(tensor->dtype);
    if (tensor->bounds == NULL || element == 0 ||
        !count_elements(sizes, ndim, tensor->capacity / element, &numel)) {
        return false;
    }
    memmove(tensor->sizes, sizes, ndim * sizeof *sizes);
    tensor->nbytes = numel * element;
    etd_set_strides(tensor);
    return true;
}

bool etd_method_resize_input(etd_method *method, uint32_t index, const int32_t *sizes) {
    etd_tensor *tensor = etd_method_input(method, index);
    if (tensor == NULL) {
        return false;
    }
    for (uint32_t d = 0; tensor->bounds != NULL && d < tensor->ndim; d++) {
        if (sizes[d] < 0 || (uint32_t)sizes[d] > etd_get_u32(tensor->bounds + 4u * d)) {
            return false;
        }
    }
    return etd_resize(tensor, sizes, tensor->ndim);
}
