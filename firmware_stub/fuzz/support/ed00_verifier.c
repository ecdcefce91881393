// SPDX-License-Identifier: Apache-2.0
#include "ed00_verifier.h"

#include <stddef.h>
#include <string.h>

#define HEAD_SIZE 12u /* size prefix, root offset and identifier */
#define VALUE_TYPES 8u

typedef struct table_type table_type;

typedef enum { SCALAR, STRING, SCALARS, TABLE, TABLES } field_kind;

typedef struct {
    uint8_t kind;
    uint8_t width; /* of a scalar, or of each vector element */
    const table_type *type;
} field_type;

struct table_type {
    uint8_t count;
    bool exactly_one; /* exactly one of the fields is present */
    field_type fields[8];
};

static const table_type scalar_64 = {1, false, {{SCALAR, 8, NULL}}};
static const table_type scalar_32 = {1, false, {{SCALAR, 4, NULL}}};
static const table_type scalar_8 = {1, false, {{SCALAR, 1, NULL}}};
static const table_type tensor = {
    4, false, {{SCALAR, 1, NULL}, {SCALARS, 8, NULL}, {SCALARS, 8, NULL}, {SCALAR, 8, NULL}}};
static const table_type tensor_list = {1, false, {{TABLES, 0, &tensor}}};
static const table_type value = {8,
                                 false,
                                 {{SCALAR, 1, NULL},
                                  {TABLE, 0, &tensor},
                                  {TABLE, 0, &tensor_list},
                                  {TABLE, 0, &scalar_64},
                                  {TABLE, 0, &scalar_32},
                                  {TABLE, 0, &scalar_64},
                                  {TABLE, 0, &scalar_8},
                                  {TABLE, 0, &scalar_8}}};
static const table_type debug_event = {6,
                                       false,
                                       {{SCALAR, 8, NULL},
                                        {SCALAR, 4, NULL},
                                        {TABLE, 0, &value},
                                        {SCALAR, 4, NULL},
                                        {STRING, 0, NULL},
                                        {STRING, 0, NULL}}};
static const table_type allocation_event = {2, false, {{SCALAR, 4, NULL}, {SCALAR, 8, NULL}}};
static const table_type profile_event = {8,
                                         false,
                                         {{STRING, 0, NULL},
                                          {SCALAR, 4, NULL},
                                          {SCALAR, 4, NULL},
                                          {SCALAR, 4, NULL},
                                          {STRING, 0, NULL},
                                          {SCALARS, 1, NULL},
                                          {SCALAR, 8, NULL},
                                          {SCALAR, 8, NULL}}};
static const table_type event = {
    3, true, {{TABLE, 0, &profile_event}, {TABLE, 0, &allocation_event}, {TABLE, 0, &debug_event}}};
static const table_type allocator = {1, false, {{STRING, 0, NULL}}};
static const table_type run_data = {
    4, false, {{STRING, 0, NULL}, {SCALAR, 4, NULL}, {TABLES, 0, &allocator}, {TABLES, 0, &event}}};
static const table_type dump = {2, false, {{SCALAR, 4, NULL}, {TABLES, 0, &run_data}}};

typedef struct {
    const uint8_t *bytes;
    uint64_t size;
    uint64_t tables; /* limit on further tables; a file cannot have more tables than bytes */
} file;

/* Positions and sizes are below 2^32, so their sums do not wrap. */
static bool within(const file *file, uint64_t at, uint64_t size, uint32_t alignment) {
    return at % alignment == 0 && at + size <= file->size;
}

static uint32_t u16_at(const file *file, uint64_t at) {
    return file->bytes[at] | (uint32_t)file->bytes[at + 1] << 8;
}

static uint32_t u32_at(const file *file, uint64_t at) {
    return u16_at(file, at) | u16_at(file, at + 2) << 16;
}

static bool is_table_valid(file *file, uint64_t at, const table_type *type);

static bool is_vector_valid(file *file, uint64_t at, const field_type *field) {
    if (!within(file, at, 4, 4)) {
        return false;
    }
    uint64_t count = u32_at(file, at);
    at += 4;
    switch (field->kind) {
    case STRING:
        return within(file, at, count + 1, 1) && file->bytes[at + count] == 0;
    case SCALARS:
        return within(file, at, count * field->width, field->width);
    default:
        break;
    }
    bool sound = within(file, at, 4 * count, 4);
    for (uint64_t end = at + 4 * count; sound && at < end; at += 4) {
        sound = is_table_valid(file, at + u32_at(file, at), field->type);
    }
    return sound;
}

static bool is_field_valid(file *file, uint64_t at, const field_type *field) {
    if (field->kind == SCALAR) {
        return true;
    }
    uint64_t target = at + u32_at(file, at);
    return field->kind == TABLE ? is_table_valid(file, target, field->type)
                                : is_vector_valid(file, target, field);
}

static bool are_fields_valid(file *file, uint64_t at, uint64_t vtable, const table_type *type) {
    uint32_t slots = (u16_at(file, vtable) - 4) / 2;
    uint32_t size = u16_at(file, vtable + 2);
    uint32_t present = 0;
    for (uint32_t slot = 0; slot < slots; slot++) {
        const field_type *field = &type->fields[slot];
        uint32_t offset = u16_at(file, vtable + 4 + 2 * slot);
        uint32_t width = field->kind == SCALAR ? field->width : 4;
        if (offset == 0) {
            continue;
        }
        present++;
        if (offset < 4 || offset + width > size || (at + offset) % width != 0 ||
            !is_field_valid(file, at + offset, field)) {
            return false;
        }
        if (type == &value && slot == 0 && file->bytes[at + offset] >= VALUE_TYPES) {
            return false;
        }
    }
    return !type->exactly_one || present == 1;
}

/* The recursion ends, because the types do not form a cycle. */
static bool is_table_valid(file *file, uint64_t at, const table_type *type) {
    if (file->tables-- == 0 || !within(file, at, 4, 4)) {
        return false;
    }
    int64_t vtable = (int64_t)at - (int32_t)u32_at(file, at);
    if (vtable < 0 || !within(file, (uint64_t)vtable, 4, 2)) {
        return false;
    }
    uint32_t size = u16_at(file, (uint64_t)vtable);
    return size >= 4 && size % 2 == 0 && size <= 4 + 2u * type->count &&
           within(file, (uint64_t)vtable, size, 2) && u16_at(file, (uint64_t)vtable + 2) >= 4 &&
           within(file, at, u16_at(file, (uint64_t)vtable + 2), 4) &&
           are_fields_valid(file, at, (uint64_t)vtable, type);
}

bool ed00_is_sound(const uint8_t *bytes, uint32_t size) {
    file file = {bytes, size, size};
    return size >= HEAD_SIZE && u32_at(&file, 0) == size - 4 && memcmp(bytes + 8, "ED00", 4) == 0 &&
           is_table_valid(&file, 4 + (uint64_t)u32_at(&file, 4), &dump);
}
