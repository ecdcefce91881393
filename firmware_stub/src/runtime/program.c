// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <string.h>

#include "etd_bytes.h"
#include "program_fields.h"

enum {
    IDENTIFIER_AT = 4,
    HEADER_AT = 8,
    HEADER_LENGTH_AT = 12,
    PROGRAM_SIZE_AT = 16,
    SEGMENT_BASE_AT = 24,
    SEGMENT_DATA_SIZE_AT = 32,
    HEADER_LENGTH = 24,
    HEADER_LENGTH_WITH_DATA_SIZE = 32,
};

const char etd_runtime_name[] = "bundled C runtime";

static etd_status damaged(uint32_t offset, etd_error *error, const char *message) {
    return etd_fail(error, ETD_LINK_STATUS_BAD_PROGRAM, offset, message, 0);
}

/* Reads the extended header, which precedes the root table in files with segments. */
static etd_status read_extended_header(etd_program *program, etd_error *error) {
    const uint8_t *data = program->data;
    if (!etd_within(PROGRAM_SIZE_AT, 16, program->size)) {
        return damaged(HEADER_AT, error, "extended header: outside the file");
    }
    uint32_t length = etd_get_u32(data + HEADER_LENGTH_AT);
    uint64_t program_size = etd_get_u64(data + PROGRAM_SIZE_AT);
    uint64_t segment_base = etd_get_u64(data + SEGMENT_BASE_AT);
    uint64_t segment_size = 0;
    if (length < HEADER_LENGTH || !etd_within(HEADER_AT, length, program->size)) {
        return damaged(HEADER_LENGTH_AT, error, "extended header: invalid length");
    }
    if (program_size > program->size) {
        return damaged(PROGRAM_SIZE_AT, error, "program size: exceeds the file");
    }
    if (segment_base > program->size) {
        return damaged(SEGMENT_BASE_AT, error, "segment base: outside the file");
    }
    if (length >= HEADER_LENGTH_WITH_DATA_SIZE) {
        segment_size = etd_get_u64(data + SEGMENT_DATA_SIZE_AT);
    }
    if (segment_size > program->size - segment_base) {
        return damaged(SEGMENT_DATA_SIZE_AT, error, "segments: exceed the file");
    }
    program->program_size = (uint32_t)program_size;
    program->segment_base = (uint32_t)segment_base;
    return ETD_LINK_STATUS_OK;
}

etd_status etd_program_open(etd_program *program, const void *data, uint32_t size, etd_error *error) {
    *program = (etd_program){.data = data, .size = size, .program_size = size, .segment_base = size};
    /* Below 2^31 the sum of an offset and a field's 16-bit offset cannot wrap. */
    if (size > INT32_MAX) {
        return damaged(0, error, "file: too large");
    }
    if (size < HEADER_AT || memcmp(program->data + IDENTIFIER_AT, "ET12", 4) != 0) {
        return damaged(IDENTIFIER_AT, error, "identifier: not an ExecuTorch program");
    }
    if (etd_within(HEADER_AT, 4, size) && memcmp(program->data + HEADER_AT, "eh00", 4) == 0) {
        etd_status status = read_extended_header(program, error);
        if (status != ETD_LINK_STATUS_OK) {
            return status;
        }
    }
    etd_reader reader = etd_program_reader(program, error);
    program->root = etd_read_root(&reader).at;
    return reader.status;
}

etd_reader etd_program_reader(const etd_program *program, etd_error *error) {
    return (etd_reader){program->data, program->program_size, ETD_LINK_STATUS_OK, error};
}

const uint8_t *etd_program_segment(etd_reader *reader, const etd_program *program, uint32_t index,
                                   uint32_t *size) {
    etd_table root = etd_read_root(reader);
    etd_vector segments = etd_read_vector(reader, root, PROGRAM_SEGMENTS, 4, "segments");
    if (index >= segments.count) {
        etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, root.at, "segment_index", "no such segment");
        return NULL;
    }
    etd_table segment = etd_read_table_at(reader, segments, index, "segment");
    uint64_t start = etd_read_u64(reader, segment, DATA_SEGMENT_OFFSET, "segment offset");
    uint64_t length = etd_read_u64(reader, segment, DATA_SEGMENT_SIZE, "segment size");
    uint64_t room = program->size - program->segment_base;
    if (start > room || length > room - start) {
        etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, segment.at, "segment", "outside the file");
    }
    *size = (uint32_t)length;
    return reader->status == ETD_LINK_STATUS_OK ? program->data + program->segment_base + (uint32_t)start
                                                : NULL;
}

/* Returns a part of a segment. */
static const uint8_t *segment_piece(etd_reader *reader, const etd_program *program, uint32_t index,
                                    uint64_t offset, uint32_t nbytes) {
    uint32_t size = 0;
    const uint8_t *segment = etd_program_segment(reader, program, index, &size);
    if (segment == NULL) {
        return NULL;
    }
    if (offset > size || nbytes > size - offset) {
        etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, (uint32_t)(segment - program->data), "constant",
                        "outside its segment");
        return NULL;
    }
    return segment + (uint32_t)offset;
}

const uint8_t *etd_program_delegate_data(etd_reader *reader, uint32_t index, uint32_t *size) {
    etd_table root = etd_read_root(reader);
    etd_vector entries =
        etd_read_vector(reader, root, PROGRAM_BACKEND_DELEGATE_DATA, 4, "backend_delegate_data");
    if (index >= entries.count) {
        etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, root.at, "backend_delegate_data",
                        "no such entry");
        return NULL;
    }
    etd_table entry = etd_read_table_at(reader, entries, index, "backend_delegate_data");
    etd_vector data = etd_read_vector(reader, entry, BACKEND_DELEGATE_INLINE_DATA_DATA, 1, "data");
    *size = data.count;
    return reader->status == ETD_LINK_STATUS_OK ? reader->data + data.at : NULL;
}

/* Returns entry `number` of a segment that is divided by a table of offsets. */
static const uint8_t *subsegment(etd_reader *reader, const etd_program *program, etd_table table,
                                 uint32_t number, uint32_t nbytes) {
    etd_vector offsets = etd_read_vector(reader, table, SUBSEGMENT_OFFSETS_OFFSETS, 8, "offsets");
    uint32_t segment = etd_read_u32(reader, table, SUBSEGMENT_OFFSETS_SEGMENT_INDEX, "segment_index");
    if (number >= offsets.count) {
        etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, table.at, "data_buffer_idx", "no such constant");
        return NULL;
    }
    return segment_piece(reader, program, segment, etd_u64_at(reader, offsets, number), nbytes);
}

/* Returns a constant stored in the FlatBuffer itself, as in older files. */
static const uint8_t *inline_constant(etd_reader *reader, etd_vector buffers, uint32_t index,
                                      uint32_t nbytes) {
    etd_table buffer = etd_read_table_at(reader, buffers, index, "constant_buffer");
    etd_vector storage = etd_read_vector(reader, buffer, BUFFER_STORAGE, 1, "storage");
    if (nbytes > storage.count) {
        etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, buffer.at, "constant", "larger than its buffer");
        return NULL;
    }
    return reader->data + storage.at;
}

const uint8_t *etd_program_constant(etd_reader *reader, const etd_program *program, uint32_t index,
                                    uint32_t nbytes) {
    etd_table root = etd_read_root(reader);
    etd_table constants = etd_read_table(reader, root, PROGRAM_CONSTANT_SEGMENT, "constant_segment");
    etd_vector offsets =
        etd_read_vector(reader, constants, SUBSEGMENT_OFFSETS_OFFSETS, 8, "constant offsets");
    etd_vector buffers = etd_read_vector(reader, root, PROGRAM_CONSTANT_BUFFER, 4, "constant_buffer");
    const uint8_t *constant = NULL;
    if (offsets.count == 0 && index < buffers.count) {
        constant = inline_constant(reader, buffers, index, nbytes);
    } else {
        constant = subsegment(reader, program, constants, index, nbytes);
    }
    return reader->status == ETD_LINK_STATUS_OK ? constant : NULL;
}

const uint8_t *etd_program_initial_state(etd_reader *reader, const etd_program *program, uint64_t subsegments,
                                         uint32_t index, uint32_t nbytes) {
    etd_table root = etd_read_root(reader);
    etd_vector all = etd_read_vector(reader, root, PROGRAM_MUTABLE_DATA_SEGMENTS, 4, "mutable_data_segments");
    if (subsegments >= all.count) {
        etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, root.at, "mutable_data_segments",
                        "no such segment");
        return NULL;
    }
    etd_table table = etd_read_table_at(reader, all, (uint32_t)subsegments, "mutable_data_segments");
    const uint8_t *state = subsegment(reader, program, table, index, nbytes);
    return reader->status == ETD_LINK_STATUS_OK ? state : NULL;
}

const uint8_t *etd_program_named(etd_reader *reader, const etd_program *program, const char *name,
                                 uint32_t nbytes) {
    etd_table root = etd_read_root(reader);
    etd_vector all = etd_read_vector(reader, root, PROGRAM_NAMED_DATA, 4, "named_data");
    for (uint32_t i = 0; i < all.count && reader->status == ETD_LINK_STATUS_OK; i++) {
        etd_table entry = etd_read_table_at(reader, all, i, "named_data");
        if (strcmp(etd_read_string(reader, entry, NAMED_DATA_KEY, "key").bytes, name) == 0) {
            uint32_t segment = etd_read_u32(reader, entry, NAMED_DATA_SEGMENT_INDEX, "segment_index");
            return segment_piece(reader, program, segment, 0, nbytes);
        }
    }
    etd_reader_fail(reader, ETD_LINK_STATUS_UNSUPPORTED_FEATURE, root.at, "data outside the program (.ptd)",
                    name);
    return NULL;
}
