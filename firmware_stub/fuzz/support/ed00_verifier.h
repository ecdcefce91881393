// SPDX-License-Identifier: Apache-2.0
/* Verifies a file against schema/etdump.fbs, like the FlatBuffers verifier: every table, vector and string is
 * aligned and within the file, and every string ends with NUL. Stricter than the schema: no unknown fields,
 * exactly one kind of event, no unknown type of value. */
#ifndef ED00_VERIFIER_H
#define ED00_VERIFIER_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if a file with a size prefix is valid. Positions are aligned relative to the prefix. */
bool ed00_is_sound(const uint8_t *bytes, uint32_t size);

#endif
