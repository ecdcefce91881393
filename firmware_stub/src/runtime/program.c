#include "program.h"

#include <string.h>

#include "et_bytes.h"
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

static et_status damaged(uint32_t offset, et_error *error, const char *message) {
    return et_fail(error, ET_LINK_STATUS_BAD_PROGRAM, offset, message, 0);
}

/* Reads the header that precedes the root table when the file has segments. */
static et_status read_extended_header(et_program *program, et_error *error) {
    const uint8_t *data = program->data;
    if (!et_within(PROGRAM_SIZE_AT, 16, program->size)) {
        return damaged(HEADER_AT, error, "extended header: outside the file");
    }
    uint32_t length = et_get_u32(data + HEADER_LENGTH_AT);
    uint64_t program_size = et_get_u64(data + PROGRAM_SIZE_AT);
    uint64_t segment_base = et_get_u64(data + SEGMENT_BASE_AT);
    uint64_t segment_size = 0;
    if (length < HEADER_LENGTH || !et_within(HEADER_AT, length, program->size)) {
        return damaged(HEADER_LENGTH_AT, error, "extended header: length");
    }
    if (program_size > program->size) {
        return damaged(PROGRAM_SIZE_AT, error, "program size: more than the file has");
    }
    if (segment_base > program->size) {
        return damaged(SEGMENT_BASE_AT, error, "segment base: outside the file");
    }
    if (length >= HEADER_LENGTH_WITH_DATA_SIZE) {
        segment_size = et_get_u64(data + SEGMENT_DATA_SIZE_AT);
    }
    if (segment_size > program->size - segment_base) {
        return damaged(SEGMENT_DATA_SIZE_AT, error, "segments: more than the file has");
    }
    program->program_size = (uint32_t)program_size;
    program->segment_base = (uint32_t)segment_base;
    return ET_LINK_STATUS_OK;
}

et_status et_program_open(et_program *program, const void *data, uint32_t size, et_error *error) {
    *program = (et_program){.data = data, .size = size, .program_size = size, .segment_base = size};
    /* Below 2^31, the sum of an offset and a field's 16-bit offset never wraps. */
    if (size > INT32_MAX) {
        return damaged(0, error, "file: too large");
    }
    if (size < HEADER_AT || memcmp(program->data + IDENTIFIER_AT, "ET12", 4) != 0) {
        return damaged(IDENTIFIER_AT, error, "identifier: not an ExecuTorch program");
    }
    if (et_within(HEADER_AT, 4, size) && memcmp(program->data + HEADER_AT, "eh00", 4) == 0) {
        et_status status = read_extended_header(program, error);
        if (status != ET_LINK_STATUS_OK) {
            return status;
        }
    }
    et_reader reader = et_program_reader(program, error);
    program->root = et_read_root(&reader).at;
    return reader.status;
}

et_reader et_program_reader(const et_program *program, et_error *error) {
    return (et_reader){program->data, program->program_size, ET_LINK_STATUS_OK, error};
}

const uint8_t *et_program_segment(et_reader *reader, const et_program *program, uint32_t index,
                                  uint32_t *size) {
    et_table root = et_read_root(reader);
    et_vector segments = et_read_vector(reader, root, PROGRAM_SEGMENTS, 4, "segments");
    if (index >= segments.count) {
        et_reader_fail(reader, ET_LINK_STATUS_BAD_PROGRAM, root.at, "segment_index", "no such segment");
        return NULL;
    }
    et_table segment = et_read_table_at(reader, segments, index, "segment");
    uint64_t start = et_read_u64(reader, segment, DATA_SEGMENT_OFFSET, "segment offset");
    uint64_t length = et_read_u64(reader, segment, DATA_SEGMENT_SIZE, "segment size");
    uint64_t room = program->size - program->segment_base;
    if (start > room || length > room - start) {
        et_reader_fail(reader, ET_LINK_STATUS_BAD_PROGRAM, segment.at, "segment", "outside the file");
    }
    *size = (uint32_t)length;
    return reader->status == ET_LINK_STATUS_OK ? program->data + program->segment_base + (uint32_t)start
                                               : NULL;
}

/* A piece of a segment. */
static const uint8_t *segment_piece(et_reader *reader, const et_program *program, uint32_t index,
                                    uint64_t offset, uint32_t nbytes) {
    uint32_t size = 0;
    const uint8_t *segment = et_program_segment(reader, program, index, &size);
    if (segment == NULL) {
        return NULL;
    }
    if (offset > size || nbytes > size - offset) {
        et_reader_fail(reader, ET_LINK_STATUS_BAD_PROGRAM, (uint32_t)(segment - program->data), "constant",
                       "outside its segment");
        return NULL;
    }
    return segment + (uint32_t)offset;
}

const uint8_t *et_program_delegate_data(et_reader *reader, uint32_t index, uint32_t *size) {
    et_table root = et_read_root(reader);
    et_vector entries =
        et_read_vector(reader, root, PROGRAM_BACKEND_DELEGATE_DATA, 4, "backend_delegate_data");
    if (index >= entries.count) {
        et_reader_fail(reader, ET_LINK_STATUS_BAD_PROGRAM, root.at, "backend_delegate_data", "no such entry");
        return NULL;
    }
    et_table entry = et_read_table_at(reader, entries, index, "backend_delegate_data");
    et_vector data = et_read_vector(reader, entry, BACKEND_DELEGATE_INLINE_DATA_DATA, 1, "data");
    *size = data.count;
    return reader->status == ET_LINK_STATUS_OK ? reader->data + data.at : NULL;
}

/* Piece number `number` of those that a table of offsets divides a segment into. */
static const uint8_t *subsegment(et_reader *reader, const et_program *program, et_table table,
                                 uint32_t number, uint32_t nbytes) {
    et_vector offsets = et_read_vector(reader, table, SUBSEGMENT_OFFSETS_OFFSETS, 8, "offsets");
    uint32_t segment = et_read_u32(reader, table, SUBSEGMENT_OFFSETS_SEGMENT_INDEX, "segment_index");
    if (number >= offsets.count) {
        et_reader_fail(reader, ET_LINK_STATUS_BAD_PROGRAM, table.at, "data_buffer_idx", "no such constant");
        return NULL;
    }
    return segment_piece(reader, program, segment, et_u64_at(reader, offsets, number), nbytes);
}

/* A constant in the FlatBuffer itself, where older files have them. */
static const uint8_t *inline_constant(et_reader *reader, et_vector buffers, uint32_t index, uint32_t nbytes) {
    et_table buffer = et_read_table_at(reader, buffers, index, "constant_buffer");
    et_vector storage = et_read_vector(reader, buffer, BUFFER_STORAGE, 1, "storage");
    if (nbytes > storage.count) {
        et_reader_fail(reader, ET_LINK_STATUS_BAD_PROGRAM, buffer.at, "constant", "larger than its buffer");
        return NULL;
    }
    return reader->data + storage.at;
}

const uint8_t *et_program_constant(et_reader *reader, const et_program *program, uint32_t index,
                                   uint32_t nbytes) {
    et_table root = et_read_root(reader);
    et_table constants = et_read_table(reader, root, PROGRAM_CONSTANT_SEGMENT, "constant_segment");
    et_vector offsets = et_read_vector(reader, constants, SUBSEGMENT_OFFSETS_OFFSETS, 8, "constant offsets");
    et_vector buffers = et_read_vector(reader, root, PROGRAM_CONSTANT_BUFFER, 4, "constant_buffer");
    const uint8_t *constant = NULL;
    if (offsets.count == 0 && index < buffers.count) {
        constant = inline_constant(reader, buffers, index, nbytes);
    } else {
        constant = subsegment(reader, program, constants, index, nbytes);
    }
    return reader->status == ET_LINK_STATUS_OK ? constant : NULL;
}

const uint8_t *et_program_initial_state(et_reader *reader, const et_program *program, uint64_t subsegments,
                                        uint32_t index, uint32_t nbytes) {
    et_table root = et_read_root(reader);
    et_vector all = et_read_vector(reader, root, PROGRAM_MUTABLE_DATA_SEGMENTS, 4, "mutable_data_segments");
    if (subsegments >= all.count) {
        et_reader_fail(reader, ET_LINK_STATUS_BAD_PROGRAM, root.at, "mutable_data_segments",
                       "no such segment");
        return NULL;
    }
    et_table table = et_read_table_at(reader, all, (uint32_t)subsegments, "mutable_data_segments");
    const uint8_t *state = subsegment(reader, program, table, index, nbytes);
    return reader->status == ET_LINK_STATUS_OK ? state : NULL;
}

const uint8_t *et_program_named(et_reader *reader, const et_program *program, const char *name,
                                uint32_t nbytes) {
    et_table root = et_read_root(reader);
    et_vector all = et_read_vector(reader, root, PROGRAM_NAMED_DATA, 4, "named_data");
    for (uint32_t i = 0; i < all.count && reader->status == ET_LINK_STATUS_OK; i++) {
        et_table entry = et_read_table_at(reader, all, i, "named_data");
        if (strcmp(et_read_string(reader, entry, NAMED_DATA_KEY, "key").bytes, name) == 0) {
            uint32_t segment = et_read_u32(reader, entry, NAMED_DATA_SEGMENT_INDEX, "segment_index");
            return segment_piece(reader, program, segment, 0, nbytes);
        }
    }
    et_reader_fail(reader, ET_LINK_STATUS_UNSUPPORTED_FEATURE, root.at, "data outside the program (.ptd)",
                   name);
    return NULL;
}
