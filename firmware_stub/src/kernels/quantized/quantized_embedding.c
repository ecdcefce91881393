// SPDX-License-Identifier: Apache-2.0
/* Embeddings with quantized tables: 8 bits per element; 4 with the first of two in the upper half of a byte;
 * or 2 with the first of four in the lowest bits. */
#include <string.h>

#include "../kernels.h"
#include "../support/number.h"

typedef struct {
    const etd_tensor *weight;
    const etd_tensor *scales;      /* [rows] or [rows, groups] */
    const etd_tensor *zero_points; /* the same, or NULL */
    const etd_tensor *indices;
    etd_tensor *out;
    uint32_t per_byte; /* elements per byte */
    uint32_t length;   /* of a row */
    uint32_t groups;   /* per row, each with its own scale */
} etd_quantized_table;

/* Returns true if the tensor has one number per group of each row. */
static bool is_per_group(const etd_tensor *tensor, int32_t rows, uint32_t *groups) {
    if (tensor == NULL || !etd_is_contiguous(tensor) || tensor->ndim < 1 || tensor->ndim > 2 ||
        tensor->sizes[0] != rows) {
        return false;
    }
    *groups = tensor->ndim == 2 ? (uint32_t)tensor->sizes[1] : 1u;
    return *groups > 0;
}

static bool read_scales(const etd_call *call, etd_quantized_table *table) {
    const int32_t rows = table->weight->sizes[0];
    uint32_t same;
    table->scales = etd_arg_tensor(call, 1);
    table->zero_points = etd_arg_tensor(call, 2);
    if (!etd_is_type(table->scales, ETD_FLOAT) || !is_per_group(table->scales, rows, &table->groups) ||
        table->length % table->groups != 0) {
        return false;
    }
    return etd_arg_is_none(call, 2) ||
           (etd_is_numeric(table->zero_points) && is_per_group(table->zero_points, rows, &same) &&
            same == table->groups);
}

static bool resize_output(const etd_quantized_table *table) {
    int32_t sizes[ETD_MAX_DIMS + 1];
    memcpy(sizes, table->indices->sizes, sizeof table->indices->sizes);
    sizes[table->indices->ndim] = (int32_t)table->length;
    return etd_resize(table->out, sizes, table->indices->ndim + 1u);
}

/* (weight, weight_scales, weight_zero_points?, quant_min, quant_max, indices, *, [dtype?,] out) */
static const char *read_arguments(const etd_call *call, uint32_t out_at, etd_quantized_table *table) {
    const bool packed = table->per_byte > 1;
    const int32_t half = packed ? 1 << (8 / table->per_byte - 1u) : 0; /* of the range */
    int32_t same;
    int32_t dtype;
    table->weight = etd_arg_tensor(call, 0);
    table->indices = etd_arg_tensor(call, 5);
    table->out = etd_arg_out(call, out_at);
    if ((!etd_is(table->weight, ETD_BYTE, 2) && (packed || !etd_is(table->weight, ETD_CHAR, 2))) ||
        !etd_is_contiguous(table->weight) || table->weight->sizes[1] > INT32_MAX / 4) {
        return "supports only contiguous tables of bytes";
    }
    table->length = (uint32_t)table->weight->sizes[1] * table->per_byte;
    if (!read_scales(call, table)) {
        return "invalid scales or zero points";
    }
    if (packed &&
        (!etd_arg_int(call, 3, -half, -half, &same) || !etd_arg_int(call, 4, half - 1, half - 1, &same))) {
        return "supports only the whole range of its bits";
    }
    if (!etd_is_index(table->indices) || !etd_are_within(table->indices, 0, table->weight->sizes[0]) ||
        !etd_is_contiguous(table->indices)) {
        return "invalid indices";
    }
    if ((out_at > 6 && !etd_arg_is_none(call, 6) && !etd_arg_int(call, 6, ETD_FLOAT, ETD_FLOAT, &dtype)) ||
        !etd_is_type(table->out, ETD_FLOAT)) {
        return "supports only float32 as the output";
    }
    return resize_output(table) && etd_is_contiguous(table->out) ? NULL : "invalid output size";
}

static int32_t weight_at(const etd_quantized_table *table, uint32_t row, uint32_t i) {
    if (table->per_byte == 1) {
        return (int32_t)etd_load_number(table->weight, row * table->length + i).integer;
    }
    const uint8_t byte = table->weight->data[(row * table->length + i) / table->per_byte];
    if (table->per_byte == 4) {
        return ((byte >> (2 * (i % 4))) & 3) - 2;
    }
    return (i % 2 == 0 ? byte >> 4 : byte & 0xF) - 8;
}

static const char *look_up(const etd_call *call, uint32_t per_byte, uint32_t out_at) {
    etd_quantized_table table = {.per_byte = per_byte};
    const char *refusal = read_arguments(call, out_at, &table);
    if (refusal != NULL) {
        return refusal;
    }
    const uint32_t count = etd_numel(table.indices);
    const uint32_t per_group = table.length / table.groups;
    float *y = etd_out_floats(table.out);
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t row = etd_load_index(table.indices, n, table.weight->sizes[0]);
        for (uint32_t i = 0; i < table.groups * per_group; i += per_group) {
            const uint32_t group = row * table.groups + i / per_group;
            const float scale = etd_floats(table.scales)[group];
            const double zero =
                table.zero_points != NULL ? etd_to_real(etd_load_number(table.zero_points, group)) : 0.0;
            for (uint32_t k = 0; k < per_group; k++) {
                *y++ = ((float)weight_at(&table, row, i + k) - (float)zero) * scale;
            }
        }
    }
    return NULL;
}

static const char *embedding_byte(const etd_call *call) {
    return look_up(call, 1, 6);
}

static const char *embedding_byte_dtype(const etd_call *call) {
    return look_up(call, 1, 7);
}

static const char *embedding_4bit(const etd_call *call) {
    return look_up(call, 2, 6);
}

static const char *embedding_4bit_dtype(const etd_call *call) {
    return look_up(call, 2, 7);
}

static const char *embedding_2bit(const etd_call *call) {
    return look_up(call, 4, 6);
}

static const char *embedding_2bit_dtype(const etd_call *call) {
    return look_up(call, 4, 7);
}

#define EMBEDDING(name, overload, args, run)                                                                 \
    const etd_kernel etd_##run = {"quantized_decomposed::" name, overload, "native_call_" name "." overload, \
                                  ETD_IN_FLOAT32 + (args), run};

EMBEDDING("embedding_byte", "out", 7, embedding_byte)
EMBEDDING("embedding_byte", "dtype_out", 8, embedding_byte_dtype)
EMBEDDING("embedding_2bit", "out", 7, embedding_2bit)
EMBEDDING("embedding_2bit", "dtype_out", 8, embedding_2bit_dtype)
EMBEDDING("embedding_4bit", "out", 7, embedding_4bit)
EMBEDDING("embedding_4bit", "dtype_out", 8, embedding_4bit_dtype)
