// SPDX-License-Identifier: Apache-2.0
#include "etdump_writer.h"

#define VTABLES_AT 12u /* after the size prefix, root offset and identifier */

/* Offset of each field in its table; 0 if the field is never present. */
typedef struct {
    uint8_t slots;
    uint8_t size;
    uint8_t variants;
    uint8_t optional; /* bit per slot: present only in the variants that set it */
    uint8_t at[8];
} shape;

static const shape shapes[ETD_ED_SHAPES] = {
    [ETD_ED_DUMP] = {2, 8, 1, 0, {0, 4}},
    [ETD_ED_RUN] = {4, 20, 2, 1 << 2, {4, 8, 12, 16}},
    [ETD_ED_ALLOCATOR] = {1, 8, 1, 0, {4}},
    [ETD_ED_EVENT_PROFILE] = {1, 8, 1, 0, {4}},
    [ETD_ED_EVENT_ALLOCATION] = {2, 8, 1, 0, {0, 4}},
    [ETD_ED_PROFILE] = {8, 40, 4, 1 << 0 | 1 << 4, {32, 4, 24, 28, 36, 0, 8, 16}},
    [ETD_ED_PROFILE_METADATA] = {8, 48, 4, 1 << 0 | 1 << 4, {32, 4, 24, 28, 36, 40, 8, 16}},
    [ETD_ED_ALLOCATION] = {2, 16, 1, 0, {4, 8}},
    [ETD_ED_EVENT_DEBUG] = {3, 8, 1, 0, {0, 0, 4}},
    [ETD_ED_DEBUG] = {6, 32, 2, 1 << 4, {8, 4, 16, 20, 24, 0}},
    [ETD_ED_VALUE_NONE] = {8, 16, 2, 1 << 7, {4, 0, 0, 0, 0, 0, 0, 12}},
    [ETD_ED_VALUE_INT] = {8, 16, 2, 1 << 7, {4, 0, 0, 8, 0, 0, 0, 12}},
    [ETD_ED_VALUE_BOOL] = {8, 16, 2, 1 << 7, {4, 0, 0, 0, 0, 0, 8, 12}},
    [ETD_ED_VALUE_DOUBLE] = {8, 16, 2, 1 << 7, {4, 0, 0, 0, 0, 8, 0, 12}},
    [ETD_ED_VALUE_TENSOR] = {8, 16, 2, 1 << 7, {4, 8, 0, 0, 0, 0, 0, 12}},
    [ETD_ED_VALUE_TENSOR_LIST] = {8, 16, 2, 1 << 7, {4, 0, 8, 0, 0, 0, 0, 12}},
    [ETD_ED_BOOL] = {1, 8, 1, 0, {4}},
    [ETD_ED_NUMBER] = {1, 16, 1, 0, {8}},
    [ETD_ED_TENSOR] = {4, 24, 1, 0, {4, 8, 12, 16}},
    [ETD_ED_TENSOR_LIST] = {1, 8, 1, 0, {4}},
};

void etd_ed_put(etd_ed_writer *writer, const void *bytes, uint32_t size) {
    if (writer->sink != NULL && size > 0 && !writer->stopped) {
        writer->stopped = !writer->sink->write(writer->sink->context, bytes, size);
    }
    writer->position += size;
}

void etd_ed_put_u32(etd_ed_writer *writer, uint32_t value) {
    etd_ed_put(writer, &value, sizeof value);
}

void etd_ed_put_u64(etd_ed_writer *writer, uint64_t value) {
    etd_ed_put(writer, &value, sizeof value);
}

void etd_ed_align(etd_ed_writer *writer, uint32_t alignment) {
    static const uint8_t zeros[8];
    etd_ed_put(writer, zeros, (0u - writer->position) & (alignment - 1u));
}

static uint32_t vtable_size(const shape *shape) {
    return 4u + 2u * shape->slots;
}

static void put_u16(etd_ed_writer *writer, uint32_t value) {
    uint16_t half = (uint16_t)value;
    etd_ed_put(writer, &half, sizeof half);
}

static void put_vtable(etd_ed_writer *writer, const shape *shape, uint32_t variant) {
    put_u16(writer, vtable_size(shape));
    put_u16(writer, shape->size);
    for (uint32_t slot = 0; slot < shape->slots; slot++) {
        bool present = true;
        if ((shape->optional >> slot & 1u) != 0) {
            present = (variant & 1u) != 0;
            variant >>= 1;
        }
        put_u16(writer, present ? shape->at[slot] : 0u);
    }
}

void etd_ed_put_vtables(etd_ed_writer *writer) {
    for (uint32_t i = 0; i < ETD_ED_SHAPES; i++) {
        for (uint32_t variant = 0; variant < shapes[i].variants; variant++) {
            put_vtable(writer, &shapes[i], variant);
        }
    }
}

void etd_ed_put_table(etd_ed_writer *writer, etd_ed_shape shape, uint32_t variant) {
    uint32_t vtable = VTABLES_AT + variant * vtable_size(&shapes[shape]);
    for (uint32_t i = 0; i < (uint32_t)shape; i++) {
        vtable += shapes[i].variants * vtable_size(&shapes[i]);
    }
    etd_ed_put_u32(writer, writer->position - vtable);
}

/* Size of a string: length word, bytes, NUL, padding. */
static uint32_t string_size(uint32_t length) {
    return (4u + length + 1u + 3u) & ~3u;
}

void etd_ed_put_name(etd_ed_writer *writer, etd_name name) {
    const etd_tracer *tracer = writer->tracer;
    uint32_t at = writer->strings;
    if (writer->sink != NULL && tracer->name_count > 0) {
        const uint8_t *entry = etd_name_entry(tracer, (etd_name)(tracer->name_count - 1u));
        for (uint32_t id = tracer->name_count; id-- > 0 && id != name; entry += 1u + entry[0]) {
            at += string_size(entry[0]);
        }
    }
    etd_ed_put_u32(writer, at - writer->position);
}

static void put_string(etd_ed_writer *writer, const uint8_t *bytes, uint32_t length) {
    static const uint8_t end;
    etd_ed_put_u32(writer, length);
    etd_ed_put(writer, bytes, length);
    etd_ed_put(writer, &end, 1);
    etd_ed_align(writer, 4);
}

/* Writes the newest name first, as in the log, then the empty string. */
void etd_ed_put_strings(etd_ed_writer *writer) {
    const etd_tracer *tracer = writer->tracer;
    if (tracer->name_count > 0) {
        const uint8_t *entry = etd_name_entry(tracer, (etd_name)(tracer->name_count - 1u));
        for (uint32_t left = tracer->name_count; left > 0; left--) {
            put_string(writer, entry + 1, entry[0]);
            entry += 1u + entry[0];
        }
    }
    put_string(writer, NULL, 0);
}
