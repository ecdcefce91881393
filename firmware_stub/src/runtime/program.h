/* Private to the runtime: what methods need of an opened program. */
#ifndef ET_PROGRAM_H
#define ET_PROGRAM_H

#include "et_runtime.h"
#include "flatbuffer.h"

/* A reader over the program's FlatBuffer. */
et_reader et_program_reader(const et_program *program, et_error *error);

/* The nbytes of constant number `index`; NULL when the file does not have them. */
const uint8_t *et_program_constant(et_reader *reader, const et_program *program, uint32_t index,
                                   uint32_t nbytes);

/* The nbytes that mutable buffer number `index` begins with, from subsegments number `subsegments` of the
 * mutable data; NULL when the file does not have them. */
const uint8_t *et_program_initial_state(et_reader *reader, const et_program *program, uint64_t subsegments,
                                        uint32_t index, uint32_t nbytes);

/* The nbytes that the file names `name`; NULL when it does not have them. */
const uint8_t *et_program_named(et_reader *reader, const et_program *program, const char *name,
                                uint32_t nbytes);

/* Segment number `index` and its size; NULL when the file does not have it. */
const uint8_t *et_program_segment(et_reader *reader, const et_program *program, uint32_t index,
                                  uint32_t *size);

/* Entry number `index` of the backends' data in the FlatBuffer itself, and its size; NULL as above. */
const uint8_t *et_program_delegate_data(et_reader *reader, uint32_t index, uint32_t *size);

#endif
