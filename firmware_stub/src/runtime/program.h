// SPDX-License-Identifier: Apache-2.0
/* Private to the runtime: access to an opened program. */
#ifndef ETD_PROGRAM_H
#define ETD_PROGRAM_H

#include "etd_runtime.h"
#include "flatbuffer.h"

/* Returns a reader of the program's FlatBuffer. */
etd_reader etd_program_reader(const etd_program *program, etd_error *error);

/* Returns the `nbytes` bytes of constant number `index`, or NULL if the file does not contain them. */
const uint8_t *etd_program_constant(etd_reader *reader, const etd_program *program, uint32_t index,
                                    uint32_t nbytes);

/* Returns the `nbytes` bytes of initial state of mutable buffer number `index`, in entry `subsegments` of the
 * mutable data; or NULL if the file does not contain them. */
const uint8_t *etd_program_initial_state(etd_reader *reader, const etd_program *program, uint64_t subsegments,
                                         uint32_t index, uint32_t nbytes);

/* Returns the `nbytes` bytes of the named data `name`, or NULL if the file does not contain them. */
const uint8_t *etd_program_named(etd_reader *reader, const etd_program *program, const char *name,
                                 uint32_t nbytes);

/* Returns segment number `index` and its size, or NULL if the file does not contain it. */
const uint8_t *etd_program_segment(etd_reader *reader, const etd_program *program, uint32_t index,
                                   uint32_t *size);

/* Returns entry number `index` of the backends' data in the FlatBuffer and its size, or NULL. */
const uint8_t *etd_program_delegate_data(etd_reader *reader, uint32_t index, uint32_t *size);

#endif
