// SPDX-License-Identifier: Apache-2.0
/* The arena: allocations aligned to 16 bytes, one after the other, never freed.
 *
 * A full arena still adds up sizes, so one pass over a plan gives the size it needs. */
#ifndef ETD_ARENA_H
#define ETD_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#define ETD_ARENA_ALIGNMENT 16u

typedef struct {
    uint8_t *base;
    uint32_t capacity;
    uint64_t used; /* bytes allocated; needed, if more than capacity */
} etd_arena;

/* Allocates count * size bytes; `size` must be below 4 GiB. Returns NULL if they do not fit, or if the arena
 * has no memory and only counts. */
void *etd_arena_take(etd_arena *arena, uint32_t count, uint32_t size);

/* Returns true if an allocation did not fit. */
bool etd_arena_overflowed(const etd_arena *arena);

/* Returns the bytes allocated or needed, at most UINT32_MAX. */
uint32_t etd_arena_used(const etd_arena *arena);

#endif
