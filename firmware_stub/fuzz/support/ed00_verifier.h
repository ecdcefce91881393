// SPDX-License-Identifier: Apache-2.0
/* Whether a file is what schema/etdump.fbs allows, as the FlatBuffers verifier would have it: every table,
 * vector and string within the file and aligned, every string ended by a zero. Stricter in what this project
 * writes: no fields that the schema does not have, exactly one kind of event, no unknown type of value. */
#ifndef ED00_VERIFIER_H
#define ED00_VERIFIER_H

#include <stdbool.h>
#include <stdint.h>

/* A file with its size prefix; positions are aligned relative to that. */
bool ed00_is_sound(const uint8_t *bytes, uint32_t size);

#endif
