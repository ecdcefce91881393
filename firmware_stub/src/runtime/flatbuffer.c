// SPDX-License-Identifier: Apache-2.0
#include "flatbuffer.h"

#include "etd_bytes.h"

static const etd_table no_table = {0, 0, 0};

void etd_reader_fail(etd_reader *reader, etd_status status, uint32_t offset, const char *field,
                     const char *problem) {
    if (reader->status == ETD_LINK_STATUS_OK) {
        reader->status =
            etd_fail_parts(reader->error, status, offset, (const char *const[]){field, ": ", problem, 0});
    }
}

static void damaged(etd_reader *reader, uint32_t offset, const char *field, const char *problem) {
    etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, offset, field, problem);
}

bool etd_within(uint32_t offset, uint32_t length, uint32_t size) {
    return offset <= size && length <= size - offset;
}

/* Opens a table at an untrusted offset. */
static etd_table open_table(etd_reader *reader, uint32_t at, const char *field) {
    if (reader->status != ETD_LINK_STATUS_OK) {
        return no_table;
    }
    if (!etd_within(at, 4, reader->size)) {
        damaged(reader, at, field, "table outside the file");
        return no_table;
    }
    /* The signed distance wraps modulo 2^32, and so does this subtraction. */
    uint32_t vtable = at - etd_get_u32(reader->data + at);
    if (!etd_within(vtable, 4, reader->size)) {
        damaged(reader, at, field, "vtable outside the file");
        return no_table;
    }
    etd_table table = {at, vtable, etd_get_u16(reader->data + vtable)};
    if (table.vtable_size < 4 || !etd_within(vtable, table.vtable_size, reader->size)) {
        damaged(reader, vtable, field, "invalid vtable size");
        return no_table;
    }
    return table;
}

etd_table etd_read_root(etd_reader *reader) {
    if (reader->size < 4) {
        damaged(reader, 0, "program", "too short");
        return no_table;
    }
    return open_table(reader, etd_get_u32(reader->data), "program");
}

/* Returns the position of a field of `width` bytes, or 0 if absent. */
static uint32_t locate(etd_reader *reader, etd_table table, uint32_t number, uint32_t width,
                       const char *field) {
    uint32_t entry = 4u + 2u * number;
    if (reader->status != ETD_LINK_STATUS_OK || table.at == 0 || !etd_within(entry, 2, table.vtable_size)) {
        return 0;
    }
    uint32_t offset = etd_get_u16(reader->data + table.vtable + entry);
    /* The vtable also has the table's size. It is not checked, because Python's writer shares vtables between
     * tables of different sizes. */
    if (offset != 0 && (offset < 4 || !etd_within(table.at + offset, width, reader->size))) {
        damaged(reader, table.vtable + entry, field, "field outside the file");
        return 0;
    }
    return offset == 0 ? 0 : table.at + offset;
}

uint8_t etd_read_u8(etd_reader *reader, etd_table table, uint32_t number, const char *field) {
    uint32_t at = locate(reader, table, number, 1, field);
    return at == 0 ? 0 : reader->data[at];
}

uint32_t etd_read_u32(etd_reader *reader, etd_table table, uint32_t number, const char *field) {
    uint32_t at = locate(reader, table, number, 4, field);
    return at == 0 ? 0 : etd_get_u32(reader->data + at);
}

uint64_t etd_read_u64(etd_reader *reader, etd_table table, uint32_t number, const char *field) {
    uint32_t at = locate(reader, table, number, 8, field);
    return at == 0 ? 0 : etd_get_u64(reader->data + at);
}

/* Follows the offset stored at `at`. Returns 0 on failure. */
static uint32_t follow(etd_reader *reader, uint32_t at, const char *field) {
    uint32_t distance = etd_get_u32(reader->data + at);
    if (distance == 0 || !etd_within(at, distance, reader->size)) {
        damaged(reader, at, field, "offset outside the file");
        return 0;
    }
    return at + distance;
}

etd_table etd_read_table(etd_reader *reader, etd_table table, uint32_t number, const char *field) {
    uint32_t at = locate(reader, table, number, 4, field);
    if (at == 0) {
        return no_table;
    }
    return open_table(reader, follow(reader, at, field), field);
}

etd_vector etd_read_vector(etd_reader *reader, etd_table table, uint32_t number, uint32_t element_size,
                           const char *field) {
    const etd_vector empty = {0, 0};
    uint32_t at = locate(reader, table, number, 4, field);
    uint32_t target = at == 0 ? 0 : follow(reader, at, field);
    if (target == 0) {
        return empty;
    }
    if (!etd_within(target, 4, reader->size)) {
        damaged(reader, at, field, "vector outside the file");
        return empty;
    }
    etd_vector vector = {target + 4, etd_get_u32(reader->data + target)};
    if (vector.count > (reader->size - vector.at) / element_size) {
        damaged(reader, target, field, "vector longer than the file");
        return empty;
    }
    return vector;
}

etd_string etd_read_string(etd_reader *reader, etd_table table, uint32_t number, const char *field) {
    etd_string text = {"", 0};
    etd_vector bytes = etd_read_vector(reader, table, number, 1, field);
    if (bytes.at == 0) {
        return text;
    }
    if (!etd_within(bytes.at + bytes.count, 1, reader->size) || reader->data[bytes.at + bytes.count] != 0) {
        damaged(reader, bytes.at, field, "unterminated string");
        return text;
    }
    text.bytes = (const char *)reader->data + bytes.at;
    text.length = bytes.count;
    return text;
}

etd_table etd_read_table_at(etd_reader *reader, etd_vector vector, uint32_t index, const char *field) {
    if (reader->status != ETD_LINK_STATUS_OK) {
        return no_table;
    }
    return open_table(reader, follow(reader, vector.at + 4u * index, field), field);
}

uint32_t etd_u32_at(const etd_reader *reader, etd_vector vector, uint32_t index) {
    return etd_get_u32(reader->data + vector.at + 4u * index);
}

uint64_t etd_u64_at(const etd_reader *reader, etd_vector vector, uint32_t index) {
    return etd_get_u64(reader->data + vector.at + 8u * index);
}
