// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "../kernels.h"
#include "../support/number.h"

/* Resizes the output to one row of the table per index. */
static bool resize_output(etd_tensor *out, const etd_tensor *table, const etd_tensor *indices) {
    int32_t sizes[ETD_MAX_DIMS + 1];
    memcpy(sizes, indices->sizes, sizeof indices->sizes);
    sizes[indices->ndim] = table->sizes[1];
    return etd_resize(out, sizes, indices->ndim + 1u);
}

/* embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse, *, out). The arguments between indices
 * and out are for training. */
static const char *embedding(const etd_call *call) {
    const etd_tensor *table = etd_arg_tensor(call, 0);
    const etd_tensor *indices = etd_arg_tensor(call, 1);
    etd_tensor *out = etd_arg_out(call, 5);
    if (!etd_is_index(indices)) {
        return "supports only int32 and int64 indices";
    }
    if (table == NULL || !etd_is_type(out, table->dtype) || table->ndim != 2) {
        return "weight is not a matrix of the output's type";
    }
    if (!resize_output(out, table, indices)) {
        return "invalid output size";
    }
    if (!etd_is_contiguous(table) || !etd_is_contiguous(indices) || !etd_is_contiguous(out)) {
        return "supports only contiguous tensors";
    }
    if (!etd_are_within(indices, 0, table->sizes[0])) {
        return "index out of range";
    }
    const uint32_t count = etd_numel(indices);
    const uint32_t row = count == 0 ? 0 : out->nbytes / count;
    for (uint32_t i = 0; i < count; i++) {
        memmove(out->data + i * row, table->data + etd_load_index(indices, i, table->sizes[0]) * row, row);
    }
    return NULL;
}

const etd_kernel etd_aten_embedding = {"aten::embedding", "out", "native_call_embedding.out", 6, embedding};
