// SPDX-License-Identifier: Apache-2.0
/* Checked reading of a FlatBuffer.
 *
 * Every offset is checked before it is followed. A reader stores its first failure; all later reads return
 * absent, zero or empty. So a sequence of reads needs one check of reader.status at its end, and loops over
 * vectors end by themselves. `field` names the value in error messages. */
#ifndef ETD_FLATBUFFER_H
#define ETD_FLATBUFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "etd_error.h"

typedef struct {
    const uint8_t *data;
    uint32_t size;
    etd_status status; /* of the first failure */
    etd_error *error;  /* filled in by the first failure; may be NULL */
} etd_reader;

/* A table with a valid vtable; at == 0 if absent. */
typedef struct {
    uint32_t at;
    uint32_t vtable;
    uint32_t vtable_size;
} etd_table;

/* A vector that lies within the file. */
typedef struct {
    uint32_t at; /* of the first element */
    uint32_t count;
} etd_vector;

/* A NUL-terminated string in the file; "" if absent. */
typedef struct {
    const char *bytes;
    uint32_t length;
} etd_string;

/* Records a failure unless there was one before. The message is "field: problem". */
void etd_reader_fail(etd_reader *reader, etd_status status, uint32_t offset, const char *field,
                     const char *problem);

/* Returns true if [offset, offset + length) lies within `size` bytes. */
bool etd_within(uint32_t offset, uint32_t length, uint32_t size);

etd_table etd_read_root(etd_reader *reader);

/* Read fields of a table by number. Absent fields read as 0, which is the default of every field in
 * program.fbs. */
uint8_t etd_read_u8(etd_reader *reader, etd_table table, uint32_t number, const char *field);
uint32_t etd_read_u32(etd_reader *reader, etd_table table, uint32_t number, const char *field);
uint64_t etd_read_u64(etd_reader *reader, etd_table table, uint32_t number, const char *field);
etd_table etd_read_table(etd_reader *reader, etd_table table, uint32_t number, const char *field);
etd_string etd_read_string(etd_reader *reader, etd_table table, uint32_t number, const char *field);
etd_vector etd_read_vector(etd_reader *reader, etd_table table, uint32_t number, uint32_t element_size,
                           const char *field);

/* Returns table number `index` of a vector of tables. `index` must be below vector.count. */
etd_table etd_read_table_at(etd_reader *reader, etd_vector vector, uint32_t index, const char *field);

/* Return an element of a vector of numbers. `index` must be below vector.count. */
uint32_t etd_u32_at(const etd_reader *reader, etd_vector vector, uint32_t index);
uint64_t etd_u64_at(const etd_reader *reader, etd_vector vector, uint32_t index);

#endif
