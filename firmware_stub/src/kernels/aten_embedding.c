#include <string.h>

#include "kernels.h"
#include "number.h"

/* Makes the output one row of the table for each index. */
static bool resize_output(et_tensor *out, const et_tensor *table, const et_tensor *indices) {
    int32_t sizes[ET_MAX_DIMS + 1];
    memcpy(sizes, indices->sizes, sizeof indices->sizes);
    sizes[indices->ndim] = table->sizes[1];
    return et_resize(out, sizes, indices->ndim + 1u);
}

/* embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse, *, out); what stands between indices
 * and out is for training. */
static const char *embedding(const et_call *call) {
    const et_tensor *table = et_arg_tensor(call, 0);
    const et_tensor *indices = et_arg_tensor(call, 1);
    et_tensor *out = et_arg_out(call, 5);
    if (!et_is_type(indices, ET_LONG) && !et_is_type(indices, ET_INT)) {
        return "only int32 and int64 indices";
    }
    if (table == NULL || !et_is_type(out, table->dtype) || table->ndim != 2) {
        return "weight is no matrix of the output's type";
    }
    if (!resize_output(out, table, indices)) {
        return "output size";
    }
    if (!et_is_contiguous(table) || !et_is_contiguous(indices) || !et_is_contiguous(out)) {
        return "only contiguous tensors";
    }
    const uint32_t count = et_numel(indices);
    for (uint32_t i = 0; i < count; i++) {
        const int64_t index = et_load_number(indices, i).integer;
        if (index < 0 || index >= table->sizes[0]) {
            return "an index that the table does not have";
        }
    }
    const uint32_t row = count == 0 ? 0 : out->nbytes / count;
    for (uint32_t i = 0; i < count; i++) {
        memmove(out->data + i * row, table->data + (uint32_t)et_load_number(indices, i).integer * row, row);
    }
    return NULL;
}

const et_kernel et_aten_embedding = {"aten::embedding", "out", "native_call_embedding.out", 6, embedding};
