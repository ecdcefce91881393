// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "kernels.h"
#include "number.h"

/* Makes the output one row of the table for each index. */
static bool resize_output(etd_tensor *out, const etd_tensor *table, const etd_tensor *indices) {
    int32_t sizes[ETD_MAX_DIMS + 1];
    memcpy(sizes, indices->sizes, sizeof indices->sizes);
    sizes[indices->ndim] = table->sizes[1];
    return etd_resize(out, sizes, indices->ndim + 1u);
}

/* embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse, *, out); what stands between indices
 * and out is for training. */
static const char *embedding(const etd_call *call) {
    const etd_tensor *table = etd_arg_tensor(call, 0);
    const etd_tensor *indices = etd_arg_tensor(call, 1);
    etd_tensor *out = etd_arg_out(call, 5);
    if (!etd_is_index(indices)) {
        return "only int32 and int64 indices";
    }
    if (table == NULL || !etd_is_type(out, table->dtype) || table->ndim != 2) {
        return "weight is no matrix of the output's type";
    }
    if (!resize_output(out, table, indices)) {
        return "output size";
    }
    if (!etd_is_contiguous(table) || !etd_is_contiguous(indices) || !etd_is_contiguous(out)) {
        return "only contiguous tensors";
    }
    if (!etd_are_within(indices, 0, table->sizes[0])) {
        return "an index that the table does not have";
    }
    const uint32_t count = etd_numel(indices);
    const uint32_t row = count == 0 ? 0 : out->nbytes / count;
    for (uint32_t i = 0; i < count; i++) {
        memmove(out->data + i * row, table->data + (uint32_t)etd_load_number(indices, i).integer * row, row);
    }
    return NULL;
}

const etd_kernel etd_aten_embedding = {"aten::embedding", "out", "native_call_embedding.out", 6, embedding};
