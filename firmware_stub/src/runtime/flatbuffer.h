/* Checked reading of a FlatBuffer.
 *
 * Nothing is trusted: every offset is checked before it is followed. A reader remembers its first failure;
 * from then on everything reads as absent, zero or empty. So a sequence of reads needs one check of
 * reader.status at its end, and loops over vectors end by themselves. `field` is what a message calls
 * the thing read. */
#ifndef ET_FLATBUFFER_H
#define ET_FLATBUFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "et_error.h"

typedef struct {
    const uint8_t *data;
    uint32_t size;
    et_status status; /* of the first failure */
    et_error *error;  /* filled at the first failure; may be NULL */
} et_reader;

/* A table that was found and whose vtable is sound; at == 0 when absent. */
typedef struct {
    uint32_t at;
    uint32_t vtable;
    uint32_t vtable_size;
} et_table;

/* A vector all of whose elements lie within the file. */
typedef struct {
    uint32_t at; /* of the first element */
    uint32_t count;
} et_vector;

/* Text in the file with a NUL behind it; "" when absent. */
typedef struct {
    const char *bytes;
    uint32_t length;
} et_string;

/* Records a failure unless there was one. The message is "field: problem". */
void et_reader_fail(et_reader *reader, et_status status, uint32_t offset, const char *field,
                    const char *problem);

/* Whether [offset, offset + length) lies within size bytes. */
bool et_within(uint32_t offset, uint32_t length, uint32_t size);

et_table et_read_root(et_reader *reader);

/* Fields of a table by number; absent ones read as 0, which is every field's default in program.fbs. */
uint8_t et_read_u8(et_reader *reader, et_table table, uint32_t number, const char *field);
uint32_t et_read_u32(et_reader *reader, et_table table, uint32_t number, const char *field);
uint64_t et_read_u64(et_reader *reader, et_table table, uint32_t number, const char *field);
et_table et_read_table(et_reader *reader, et_table table, uint32_t number, const char *field);
et_string et_read_string(et_reader *reader, et_table table, uint32_t number, const char *field);
et_vector et_read_vector(et_reader *reader, et_table table, uint32_t number, uint32_t element_size,
                         const char *field);

/* Table number `index` of a vector of tables; index < vector.count. */
et_table et_read_table_at(et_reader *reader, et_vector vector, uint32_t index, const char *field);

/* Elements of vectors of numbers; index < vector.count. */
uint32_t et_u32_at(const et_reader *reader, et_vector vector, uint32_t index);
uint64_t et_u64_at(const et_reader *reader, et_vector vector, uint32_t index);

#endif
