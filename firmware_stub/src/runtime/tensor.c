// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>
#include <string.h>

#include "loader.h"
#include "program.h"
#include "program_fields.h"

enum { SHAPE_DYNAMIC_BOUND = 1 }; /* of TensorShapeDynamism; 0 is static */

static void damaged(etd_loader *loader, etd_table table, const char *field, const char *problem) {
    etd_reader_fail(&loader->reader, ETD_LINK_STATUS_BAD_PROGRAM, table.at, field, problem);
}

static void unsupported(etd_loader *loader, etd_table table, const char *problem) {
    etd_reader_fail(&loader->reader, ETD_LINK_STATUS_UNSUPPORTED_FEATURE, table.at, "tensor", problem);
}

/* Loads the sizes and computes nbytes. The product stays below 2^31 even if a size is 0, so that strides and
 * offsets cannot overflow. */
static void load_sizes(etd_loader *loader, etd_table table, etd_tensor *tensor) {
    etd_vector sizes = etd_read_vector(&loader->reader, table, TENSOR_SIZES, 4, "sizes");
    if (sizes.count > ETD_MAX_DIMS) {
        unsupported(loader, table, "more than 8 dimensions");
        return;
    }
    tensor->ndim = (uint8_t)sizes.count;
    uint64_t extent = etd_element_size(tensor->dtype);
    bool empty = false;
    for (uint32_t i = 0; i < sizes.count; i++) {
        uint32_t size = etd_u32_at(&loader->reader, sizes, i);
        empty = empty || size == 0;
        extent *= size == 0 ? 1 : size;
        if (size > INT32_MAX || extent > INT32_MAX) {
            damaged(loader, table, "sizes", "too large");
            return;
        }
        tensor->sizes[i] = (int32_t)size;
    }
    tensor->nbytes = empty ? 0 : (uint32_t)extent;
    tensor->capacity = tensor->nbytes;
    if (etd_read_u8(&loader->reader, table, TENSOR_SHAPE_DYNAMISM, "shape_dynamism") != 0) {
        tensor->bounds = loader->reader.data + sizes.at;
    }
}

/* Loads dim_order, which must be a permutation of the dimensions or absent, and computes the strides. */
static void load_strides(etd_loader *loader, etd_table table, etd_tensor *tensor) {
    etd_vector order = etd_read_vector(&loader->reader, table, TENSOR_DIM_ORDER, 1, "dim_order");
    if (order.count != tensor->ndim && order.count != 0) {
        damaged(loader, table, "dim_order", "length differs from sizes");
        return;
    }
    uint32_t seen = 0;
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        uint8_t dim = order.count == 0 ? (uint8_t)i : loader->reader.data[order.at + i];
        if (dim >= tensor->ndim || (seen & (1u << dim)) != 0) {
            damaged(loader, table, "dim_order", "not a permutation");
            return;
        }
        seen |= 1u << dim;
        tensor->dim_order[i] = dim;
    }
    etd_set_strides(tensor);
}

static uint8_t *planned_data(etd_loader *loader, etd_table allocation, uint32_t nbytes) {
    etd_reader *reader = &loader->reader;
    uint32_t id = etd_read_u32(reader, allocation, ALLOCATION_DETAILS_MEMORY_ID, "memory_id");
    uint32_t low =
        etd_read_u32(reader, allocation, ALLOCATION_DETAILS_MEMORY_OFFSET_LOW, "memory_offset_low");
    uint32_t high =
        etd_read_u32(reader, allocation, ALLOCATION_DETAILS_MEMORY_OFFSET_HIGH, "memory_offset_high");
    if (id == 0 || id >= loader->buffer_count) {
        damaged(loader, allocation, "memory_id", "no such buffer");
        return NULL;
    }
    const etd_buffer *buffer = &loader->buffers[id];
    if (high != 0 || !etd_within(low, nbytes, buffer->size)) {
        damaged(loader, allocation, "memory_offset", "tensor outside its buffer");
        return NULL;
    }
    return buffer->base + low;
}

/* Returns the initial bytes of a tensor in the file: constants, or the initial state of a mutable buffer.
 * Returns NULL if there are none. */
static const uint8_t *stored_data(etd_loader *loader, etd_table table, uint32_t nbytes, bool is_mutable) {
    etd_reader *reader = &loader->reader;
    etd_table extra = etd_read_table(reader, table, TENSOR_EXTRA_TENSOR_INFO, "extra_tensor_info");
    uint32_t index = etd_read_u32(reader, table, TENSOR_DATA_BUFFER_IDX, "data_buffer_idx");
    if (etd_read_u8(reader, extra, EXTRA_TENSOR_INFO_LOCATION, "location") != 0) {
        etd_string name = etd_read_string(reader, extra, EXTRA_TENSOR_INFO_FULLY_QUALIFIED_NAME, "name");
        return etd_program_named(reader, loader->program, name.bytes, nbytes);
    }
    if (index == 0) {
        return NULL;
    }
    if (is_mutable) {
        uint64_t subsegments = etd_read_u64(reader, extra, EXTRA_TENSOR_INFO_MUTABLE_DATA_SEGMENTS_IDX,
                                            "mutable_data_segments_idx");
        return etd_program_initial_state(reader, loader->program, subsegments, index, nbytes);
    }
    return etd_program_constant(reader, loader->program, index, nbytes);
}

/* Handles the four cases listed at Tensor in schema/program.fbs. */
static void load_data(etd_loader *loader, etd_table table, etd_tensor *tensor) {
    etd_table allocation = etd_read_table(&loader->reader, table, TENSOR_ALLOCATION_INFO, "allocation_info");
    const bool is_planned = allocation.at != 0;
    const uint8_t *stored = stored_data(loader, table, tensor->nbytes, is_planned);
    if (is_planned) {
        tensor->data = planned_data(loader, allocation, tensor->nbytes);
        if (stored != NULL && tensor->data != NULL) {
            memcpy(tensor->data, stored, tensor->nbytes);
        }
    } else if (stored != NULL) {
        tensor->constant = true;
        /* The cast only satisfies the type: kernels reject constants as outputs. */
        tensor->data = (uint8_t *)stored;
    }
    uint32_t alignment = etd_element_size(tensor->dtype);
    if (alignment == 0 || (uintptr_t)tensor->data % alignment != 0) {
        damaged(loader, table, "tensor", "data not aligned");
    }
}

uint32_t etd_unplanned_size(etd_loader *loader, etd_table table) {
    etd_reader *reader = &loader->reader;
    etd_tensor tensor = {.dtype = etd_read_u8(reader, table, TENSOR_SCALAR_TYPE, "scalar_type")};
    if (etd_read_table(reader, table, TENSOR_ALLOCATION_INFO, "allocation_info").at != 0 ||
        etd_read_u32(reader, table, TENSOR_DATA_BUFFER_IDX, "data_buffer_idx") != 0) {
        return 0;
    }
    load_sizes(loader, table, &tensor);
    return tensor.nbytes;
}

void etd_load_tensor(etd_loader *loader, etd_table table, etd_tensor *tensor) {
    etd_reader *reader = &loader->reader;
    memset(tensor, 0, sizeof *tensor);
    etd_table extra = etd_read_table(reader, table, TENSOR_EXTRA_TENSOR_INFO, "extra_tensor_info");
    tensor->dtype = etd_read_u8(reader, table, TENSOR_SCALAR_TYPE, "scalar_type");
    if (etd_element_size(tensor->dtype) == 0) {
        unsupported(loader, table, "scalar type");
    }
    if (etd_read_u32(reader, table, TENSOR_STORAGE_OFFSET, "storage_offset") != 0) {
        unsupported(loader, table, "storage offset");
    }
    if (etd_read_u8(reader, table, TENSOR_SHAPE_DYNAMISM, "shape_dynamism") > SHAPE_DYNAMIC_BOUND) {
        unsupported(loader, table, "dynamic shape without a bound");
    }
    if (etd_read_u8(reader, extra, EXTRA_TENSOR_INFO_DEVICE_TYPE, "device_type") != 0) {
        unsupported(loader, table, "memory of another device");
    }
    if (reader->status == ETD_LINK_STATUS_OK) {
        load_sizes(loader, table, tensor);
    }
    if (reader->status == ETD_LINK_STATUS_OK) {
        load_strides(loader, table, tensor);
    }
    if (reader->status == ETD_LINK_STATUS_OK) {
        load_data(loader, table, tensor);
    }
}
