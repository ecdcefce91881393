// SPDX-License-Identifier: Apache-2.0
/* Logged values: DebugEvent tables and their contents. Each table directly follows the one that refers to
 * it. */
#include "etdump_writer.h"

/* Shape of the Value table for each value type of the log. */
static const uint8_t value_shapes[] = {
    [ETD_LOG_VALUE_NONE] = ETD_ED_VALUE_NONE,     [ETD_LOG_VALUE_INT] = ETD_ED_VALUE_INT,
    [ETD_LOG_VALUE_BOOL] = ETD_ED_VALUE_BOOL,     [ETD_LOG_VALUE_DOUBLE] = ETD_ED_VALUE_DOUBLE,
    [ETD_LOG_VALUE_TENSOR] = ETD_ED_VALUE_TENSOR, [ETD_LOG_VALUE_TENSOR_LIST] = ETD_ED_VALUE_TENSOR_LIST,
};

/* `tensor` points to the first record of a tensor in the log. */
static uint32_t ndim_of(const uint8_t *tensor) {
    return tensor[1];
}

static const uint8_t *next_tensor(const uint8_t *tensor) {
    return tensor + etd_tensor_records(ndim_of(tensor)) * ETD_LOG_RECORD_SIZE;
}

static uint32_t type_of(const uint8_t *record) {
    return record[1] & ETD_LOG_VALUE_TYPE_MASK;
}

static const uint8_t *content_end(const uint8_t *record) {
    return record + (1u + etd_get_u16(record + 2)) * ETD_LOG_RECORD_SIZE;
}

static bool has_tensors(const uint8_t *record) {
    return type_of(record) == ETD_LOG_VALUE_TENSOR || type_of(record) == ETD_LOG_VALUE_TENSOR_LIST;
}

bool etd_ed_has_value(const uint8_t *record) {
    const uint8_t *end = has_tensors(record) ? content_end(record) : record;
    for (const uint8_t *at = record + ETD_LOG_RECORD_SIZE; at < end; at = next_tensor(at)) {
        if (etd_get_u32(at + 4) == ETD_LOG_NO_OFFSET && etd_get_u32(at + 8) > 0) {
            return false;
        }
    }
    return true;
}

/* Size of a table and two vectors with items aligned to 8. */
static uint32_t tensor_size(uint32_t ndim) {
    return 24u + 2u * (8u + 8u * ndim);
}

static void put_longs(etd_ed_writer *writer, const uint8_t *words, uint32_t count) {
    etd_ed_put_u32(writer, 0); /* padding */
    etd_ed_put_u32(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        etd_ed_put_u64(writer, (uint64_t)(int32_t)etd_get_u32(words + 4u * i));
    }
}

static void put_tensor_table(etd_ed_writer *writer, const uint8_t *tensor) {
    uint32_t ndim = ndim_of(tensor);
    uint32_t offset = etd_get_u32(tensor + 4);
    etd_ed_put_table(writer, ETD_ED_TENSOR, 0);
    etd_ed_put_u32(writer, tensor[0]);
    etd_ed_put_u32(writer, 20);              /* the vector of sizes */
    etd_ed_put_u32(writer, 24u + 8u * ndim); /* the vector of strides, after it */
    etd_ed_put_u64(writer, offset == ETD_LOG_NO_OFFSET ? UINT64_MAX : offset);
    put_longs(writer, tensor + ETD_LOG_RECORD_SIZE, ndim);
    put_longs(writer, tensor + ETD_LOG_RECORD_SIZE + 4u * ndim, ndim);
}

static void put_tensor_list(etd_ed_writer *writer, const uint8_t *record) {
    const uint8_t *first = record + ETD_LOG_RECORD_SIZE;
    const uint8_t *end = content_end(record);
    uint32_t count = 0;
    for (const uint8_t *at = first; at < end; at = next_tensor(at)) {
        count++;
    }
    etd_ed_put_table(writer, ETD_ED_TENSOR_LIST, 0);
    etd_ed_put_u32(writer, 4); /* the vector follows */
    etd_ed_put_u32(writer, count);
    uint32_t place = writer->position + 4u * count;
    place = (place + ETD_ED_CHUNK - 1u) & ~(ETD_ED_CHUNK - 1u);
    for (const uint8_t *at = first; at < end; at = next_tensor(at)) {
        etd_ed_put_u32(writer, place - writer->position);
        place += tensor_size(ndim_of(at));
    }
    etd_ed_align(writer, ETD_ED_CHUNK);
    for (const uint8_t *at = first; at < end; at = next_tensor(at)) {
        put_tensor_table(writer, at);
    }
}

static void put_bool(etd_ed_writer *writer, uint32_t truth) {
    etd_ed_put_table(writer, ETD_ED_BOOL, 0);
    etd_ed_put_u32(writer, truth);
}

static void put_value(etd_ed_writer *writer, const uint8_t *record) {
    uint32_t type = type_of(record);
    const uint8_t *content = record + ETD_LOG_RECORD_SIZE;
    uint32_t output = (record[1] & ETD_LOG_VALUE_IS_OUTPUT) != 0;
    etd_ed_put_table(writer, (etd_ed_shape)value_shapes[type], output);
    etd_ed_put_u32(writer, type);
    etd_ed_put_u32(writer, 16); /* the content, after the output flag */
    etd_ed_put_u32(writer, 4);  /* the output flag, which follows */
    put_bool(writer, output);
    if (type == ETD_LOG_VALUE_TENSOR) {
        put_tensor_table(writer, content);
    } else if (type == ETD_LOG_VALUE_TENSOR_LIST) {
        put_tensor_list(writer, record);
    } else if (type == ETD_LOG_VALUE_BOOL) {
        put_bool(writer, content[0]);
    } else if (type != ETD_LOG_VALUE_NONE) {
        etd_ed_put_table(writer, ETD_ED_NUMBER, 0);
        etd_ed_put_u32(writer, 0); /* padding */
        etd_ed_put_u64(writer, etd_get_u64(content));
    }
}

void etd_ed_put_debug(etd_ed_writer *writer, const etd_item *item) {
    const uint8_t *delegate = item->delegate;
    etd_name name = delegate != NULL ? etd_get_u16(delegate + 2) : (etd_name)ETD_LOG_NO_NAME;
    etd_ed_put_table(writer, ETD_ED_DEBUG, name != ETD_LOG_NO_NAME);
    etd_ed_put_u32(writer, etd_ed_instruction(item));
    etd_ed_put_u64(writer, (uint64_t)etd_ed_chain(item));
    etd_ed_put_u32(writer, 16); /* the value, after this table */
    etd_ed_put_u32(writer, delegate != NULL ? etd_get_u32(delegate + 4) : (uint32_t)ETD_UNSET_DELEGATE_ID);
    etd_ed_put_name(writer, name);
    etd_ed_put_u32(writer, 0); /* padding */
    put_value(writer, item->record);
    etd_ed_align(writer, ETD_ED_CHUNK);
}
