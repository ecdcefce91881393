#include <stddef.h>
#include <string.h>

#include "loader.h"
#include "program.h"
#include "program_fields.h"

enum { SHAPE_DYNAMIC_BOUND = 1 }; /* of TensorShapeDynamism; 0 is static */

static void damaged(et_loader *loader, et_table table, const char *field, const char *problem) {
    et_reader_fail(&loader->reader, ET_LINK_STATUS_BAD_PROGRAM, table.at, field, problem);
}

static void unsupported(et_loader *loader, et_table table, const char *problem) {
    et_reader_fail(&loader->reader, ET_LINK_STATUS_UNSUPPORTED_FEATURE, table.at, "tensor", problem);
}

/* Sizes, and nbytes from them. The product is kept below 2^31 even when a size is 0, so that strides and
 * offsets computed from it never overflow. */
static void load_sizes(et_loader *loader, et_table table, et_tensor *tensor) {
    et_vector sizes = et_read_vector(&loader->reader, table, TENSOR_SIZES, 4, "sizes");
    if (sizes.count > ET_MAX_DIMS) {
        unsupported(loader, table, "more than 8 dimensions");
        return;
    }
    tensor->ndim = (uint8_t)sizes.count;
    uint64_t extent = et_element_size(tensor->dtype);
    bool empty = false;
    for (uint32_t i = 0; i < sizes.count; i++) {
        uint32_t size = et_u32_at(&loader->reader, sizes, i);
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
    if (et_read_u8(&loader->reader, table, TENSOR_SHAPE_DYNAMISM, "shape_dynamism") != 0) {
        tensor->bounds = loader->reader.data + sizes.at;
    }
}

/* dim_order and the strides from it; it must name every dimension once; when absent, the dimensions' own
 * order. */
static void load_strides(et_loader *loader, et_table table, et_tensor *tensor) {
    et_vector order = et_read_vector(&loader->reader, table, TENSOR_DIM_ORDER, 1, "dim_order");
    if (order.count != tensor->ndim && order.count != 0) {
        damaged(loader, table, "dim_order", "not as long as sizes");
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
    et_set_strides(tensor);
}

static uint8_t *planned_data(et_loader *loader, et_table allocation, uint32_t nbytes) {
    et_reader *reader = &loader->reader;
    uint32_t id = et_read_u32(reader, allocation, ALLOCATION_DETAILS_MEMORY_ID, "memory_id");
    uint32_t low = et_read_u32(reader, allocation, ALLOCATION_DETAILS_MEMORY_OFFSET_LOW, "memory_offset_low");
    uint32_t high =
        et_read_u32(reader, allocation, ALLOCATION_DETAILS_MEMORY_OFFSET_HIGH, "memory_offset_high");
    if (id == 0 || id >= loader->buffer_count) {
        damaged(loader, allocation, "memory_id", "no such buffer");
        return NULL;
    }
    const et_buffer *buffer = &loader->buffers[id];
    if (high != 0 || !et_within(low, nbytes, buffer->size)) {
        damaged(loader, allocation, "memory_offset", "tensor outside its buffer");
        return NULL;
    }
    return buffer->base + low;
}

/* The bytes that the file has for a tensor: its constants, or the state that a mutable buffer begins with.
 * NULL when it has none. */
static const uint8_t *stored_data(et_loader *loader, et_table table, uint32_t nbytes, bool is_mutable) {
    et_reader *reader = &loader->reader;
    et_table extra = et_read_table(reader, table, TENSOR_EXTRA_TENSOR_INFO, "extra_tensor_info");
    uint32_t index = et_read_u32(reader, table, TENSOR_DATA_BUFFER_IDX, "data_buffer_idx");
    if (et_read_u8(reader, extra, EXTRA_TENSOR_INFO_LOCATION, "location") != 0) {
        et_string name = et_read_string(reader, extra, EXTRA_TENSOR_INFO_FULLY_QUALIFIED_NAME, "name");
        return et_program_named(reader, loader->program, name.bytes, nbytes);
    }
    if (index == 0) {
        return NULL;
    }
    if (is_mutable) {
        uint64_t subsegments = et_read_u64(reader, extra, EXTRA_TENSOR_INFO_MUTABLE_DATA_SEGMENTS_IDX,
                                           "mutable_data_segments_idx");
        return et_program_initial_state(reader, loader->program, subsegments, index, nbytes);
    }
    return et_program_constant(reader, loader->program, index, nbytes);
}

/* The four cases that schema/program.fbs lists at Tensor. */
static void load_data(et_loader *loader, et_table table, et_tensor *tensor) {
    et_table allocation = et_read_table(&loader->reader, table, TENSOR_ALLOCATION_INFO, "allocation_info");
    const bool is_planned = allocation.at != 0;
    const uint8_t *stored = stored_data(loader, table, tensor->nbytes, is_planned);
    if (is_planned) {
        tensor->data = planned_data(loader, allocation, tensor->nbytes);
        if (stored != NULL && tensor->data != NULL) {
            memcpy(tensor->data, stored, tensor->nbytes);
        }
    } else if (stored != NULL) {
        tensor->constant = true;
        /* The pointer stays writable in the type only: kernels refuse constants as outputs. */
        tensor->data = (uint8_t *)stored;
    }
    uint32_t alignment = et_element_size(tensor->dtype);
    if (alignment == 0 || (uintptr_t)tensor->data % alignment != 0) {
        damaged(loader, table, "tensor", "data not aligned for their type");
    }
}

uint32_t et_unplanned_size(et_loader *loader, et_table table) {
    et_reader *reader = &loader->reader;
    et_tensor tensor = {.dtype = et_read_u8(reader, table, TENSOR_SCALAR_TYPE, "scalar_type")};
    if (et_read_table(reader, table, TENSOR_ALLOCATION_INFO, "allocation_info").at != 0 ||
        et_read_u32(reader, table, TENSOR_DATA_BUFFER_IDX, "data_buffer_idx") != 0) {
        return 0;
    }
    load_sizes(loader, table, &tensor);
    return tensor.nbytes;
}

void et_load_tensor(et_loader *loader, et_table table, et_tensor *tensor) {
    et_reader *reader = &loader->reader;
    memset(tensor, 0, sizeof *tensor);
    et_table extra = et_read_table(reader, table, TENSOR_EXTRA_TENSOR_INFO, "extra_tensor_info");
    tensor->dtype = et_read_u8(reader, table, TENSOR_SCALAR_TYPE, "scalar_type");
    if (et_element_size(tensor->dtype) == 0) {
        unsupported(loader, table, "scalar type");
    }
    if (et_read_u32(reader, table, TENSOR_STORAGE_OFFSET, "storage_offset") != 0) {
        unsupported(loader, table, "storage offset");
    }
    if (et_read_u8(reader, table, TENSOR_SHAPE_DYNAMISM, "shape_dynamism") > SHAPE_DYNAMIC_BOUND) {
        unsupported(loader, table, "dynamic shape without a bound");
    }
    if (et_read_u8(reader, extra, EXTRA_TENSOR_INFO_DEVICE_TYPE, "device_type") != 0) {
        unsupported(loader, table, "memory of another device");
    }
    if (reader->status == ET_LINK_STATUS_OK) {
        load_sizes(loader, table, tensor);
    }
    if (reader->status == ET_LINK_STATUS_OK) {
        load_strides(loader, table, tensor);
    }
    if (reader->status == ET_LINK_STATUS_OK) {
        load_data(loader, table, tensor);
    }
}
