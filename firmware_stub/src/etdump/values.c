/* Logged values: DebugEvent and what it holds, each table right behind the one that refers to it. */
#include "writer.h"

/* The Value table for a type that the log knows. */
static const uint8_t value_shapes[] = {
    [ET_LOG_VALUE_NONE] = ET_ED_VALUE_NONE,     [ET_LOG_VALUE_INT] = ET_ED_VALUE_INT,
    [ET_LOG_VALUE_BOOL] = ET_ED_VALUE_BOOL,     [ET_LOG_VALUE_DOUBLE] = ET_ED_VALUE_DOUBLE,
    [ET_LOG_VALUE_TENSOR] = ET_ED_VALUE_TENSOR, [ET_LOG_VALUE_TENSOR_LIST] = ET_ED_VALUE_TENSOR_LIST,
};

/* A tensor of the log: its first record. */
static uint32_t ndim_of(const uint8_t *tensor) {
    return tensor[1];
}

static const uint8_t *next_tensor(const uint8_t *tensor) {
    return tensor + et_tensor_records(ndim_of(tensor)) * ET_LOG_RECORD_SIZE;
}

static uint32_t type_of(const uint8_t *record) {
    return record[1] & ET_LOG_VALUE_TYPE_MASK;
}

static const uint8_t *content_end(const uint8_t *record) {
    return record + (1u + et_get_u16(record + 2)) * ET_LOG_RECORD_SIZE;
}

static bool has_tensors(const uint8_t *record) {
    return type_of(record) == ET_LOG_VALUE_TENSOR || type_of(record) == ET_LOG_VALUE_TENSOR_LIST;
}

bool et_ed_has_value(const uint8_t *record) {
    const uint8_t *end = has_tensors(record) ? content_end(record) : record;
    for (const uint8_t *at = record + ET_LOG_RECORD_SIZE; at < end; at = next_tensor(at)) {
        if (et_get_u32(at + 4) == ET_LOG_NO_OFFSET && et_get_u32(at + 8) > 0) {
            return false;
        }
    }
    return true;
}

/* Table, and two vectors whose items are aligned to 8. */
static uint32_t tensor_size(uint32_t ndim) {
    return 24u + 2u * (8u + 8u * ndim);
}

static void put_longs(et_ed_writer *writer, const uint8_t *words, uint32_t count) {
    et_ed_put_u32(writer, 0); /* padding */
    et_ed_put_u32(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        et_ed_put_u64(writer, (uint64_t)(int32_t)et_get_u32(words + 4u * i));
    }
}

static void put_tensor(et_ed_writer *writer, const uint8_t *tensor) {
    uint32_t ndim = ndim_of(tensor);
    uint32_t offset = et_get_u32(tensor + 4);
    et_ed_put_table(writer, ET_ED_TENSOR, 0);
    et_ed_put_u32(writer, tensor[0]);
    et_ed_put_u32(writer, 20);              /* the vector of sizes */
    et_ed_put_u32(writer, 24u + 8u * ndim); /* and of strides, behind it */
    et_ed_put_u64(writer, offset == ET_LOG_NO_OFFSET ? UINT64_MAX : offset);
    put_longs(writer, tensor + ET_LOG_RECORD_SIZE, ndim);
    put_longs(writer, tensor + ET_LOG_RECORD_SIZE + 4u * ndim, ndim);
}

static void put_tensor_list(et_ed_writer *writer, const uint8_t *record) {
    const uint8_t *first = record + ET_LOG_RECORD_SIZE;
    const uint8_t *end = content_end(record);
    uint32_t count = 0;
    for (const uint8_t *at = first; at < end; at = next_tensor(at)) {
        count++;
    }
    et_ed_put_table(writer, ET_ED_TENSOR_LIST, 0);
    et_ed_put_u32(writer, 4); /* the vector is next */
    et_ed_put_u32(writer, count);
    uint32_t place = writer->position + 4u * count;
    place = (place + ET_ED_CHUNK - 1u) & ~(ET_ED_CHUNK - 1u);
    for (const uint8_t *at = first; at < end; at = next_tensor(at)) {
        et_ed_put_u32(writer, place - writer->position);
        place += tensor_size(ndim_of(at));
    }
    et_ed_align(writer, ET_ED_CHUNK);
    for (const uint8_t *at = first; at < end; at = next_tensor(at)) {
        put_tensor(writer, at);
    }
}

static void put_bool(et_ed_writer *writer, uint32_t truth) {
    et_ed_put_table(writer, ET_ED_BOOL, 0);
    et_ed_put_u32(writer, truth);
}

static void put_value(et_ed_writer *writer, const uint8_t *record) {
    uint32_t type = type_of(record);
    const uint8_t *content = record + ET_LOG_RECORD_SIZE;
    uint32_t output = (record[1] & ET_LOG_VALUE_IS_OUTPUT) != 0;
    et_ed_put_table(writer, (et_ed_shape)value_shapes[type], output);
    et_ed_put_u32(writer, type);
    et_ed_put_u32(writer, 16); /* the content, behind ... */
    et_ed_put_u32(writer, 4);  /* ... the output flag, which is next */
    put_bool(writer, output);
    if (type == ET_LOG_VALUE_TENSOR) {
        put_tensor(writer, content);
    } else if (type == ET_LOG_VALUE_TENSOR_LIST) {
        put_tensor_list(writer, record);
    } else if (type == ET_LOG_VALUE_BOOL) {
        put_bool(writer, content[0]);
    } else if (type != ET_LOG_VALUE_NONE) {
        et_ed_put_table(writer, ET_ED_NUMBER, 0);
        et_ed_put_u32(writer, 0); /* padding */
        et_ed_put_u64(writer, et_get_u64(content));
    }
}

void et_ed_put_debug(et_ed_writer *writer, const et_item *item) {
    const uint8_t *delegate = item->delegate;
    et_name name = delegate != NULL ? et_get_u16(delegate + 2) : (et_name)ET_LOG_NO_NAME;
    et_ed_put_table(writer, ET_ED_DEBUG, name != ET_LOG_NO_NAME);
    et_ed_put_u32(writer, et_ed_instruction(item));
    et_ed_put_u64(writer, (uint64_t)et_ed_chain(item));
    et_ed_put_u32(writer, 16); /* the value, behind this table */
    et_ed_put_u32(writer, delegate != NULL ? et_get_u32(delegate + 4) : (uint32_t)ET_UNSET_DELEGATE_ID);
    et_ed_put_name(writer, name);
    et_ed_put_u32(writer, 0); /* padding */
    put_value(writer, item->record);
    et_ed_align(writer, ET_ED_CHUNK);
}
