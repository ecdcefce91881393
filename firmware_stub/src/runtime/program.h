// SPDX-License-Identifier: Apache-2.0
/* Private to the runtime: what methods need of an opened program. */
#ifndef ETD_PROGRAM_H
#define ETD_PROGRAM_H

#include "etd_runtime.h"
#include "flatbuffer.h"

/* A reader over the program's FlatBuffer. */
etd_reader etd_program_reader(const etd_program *program, etd_error *error);

/* The nbytes of constant number `index`; NULL when the file does not have them. */
const uint8_t *etd_program_constant(etd_reader *reader, const etd_program *program, uint32_t index,
                                    uint32_t nbytes);

/* The nbytes that mutable buffer number `index` begins with, from subsegments number `subsegments` of the
 * mutable data; NULL when the file does not have them. */
const uint8_t *etd_program_initial_state(etd_reader *reader, const etd_program *program, uint64_t subsegments,
                                         uint32_t index, uint32_t nbytes);

/* The nbytes that the file names `name`; NULL when it does not have them. */
const uint8_t *etd_program_named(etd_reader *reader, const etd_program *program, const char *name,
                                 uint32_t nbytes);

/* Segment number `index` and its size; NULL when the file does not have it. */
const uint8_t *etd_program_segment(etd_reader *reader, const etd_program *program, uint32_t index,
                                   uint32_t *size);

/* Entry number `index` of the backends' data in the FlatBuffer itself, and its size; NULL as above. */
const uint8_t *etd_program_delegate_data(etd_reader *reader, uint32_t index, uint32_t *size);

#endif
