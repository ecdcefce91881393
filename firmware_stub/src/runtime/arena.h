// SPDX-License-Identifier: Apache-2.0
/* The arena: pieces aligned to 16 bytes, one after the other, never given back.
 *
 * Taking goes on counting when the arena is full, so that one pass over a plan tells the size it needs. */
#ifndef ETD_ARENA_H
#define ETD_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#define ETD_ARENA_ALIGNMENT 16u

typedef struct {
    uint8_t *base;
    uint32_t capacity;
    uint64_t used; /* or needed, when more than capacity */
} etd_arena;

/* Takes count pieces of `size` bytes, each below 4 GiB. NULL when they do not fit, and from an arena without
 * memory, which only counts. */
void *etd_arena_take(etd_arena *arena, uint32_t count, uint32_t size);

bool etd_arena_overflowed(const etd_arena *arena);

/* Bytes taken or needed; UINT32_MAX when more than that. */
uint32_t etd_arena_used(const etd_arena *arena);

#endif
