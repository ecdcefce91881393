/* The arena: pieces aligned to 16 bytes, one after the other, never given back.
 *
 * Taking goes on counting when the arena is full, so that one pass over a plan tells the size it needs. */
#ifndef ET_ARENA_H
#define ET_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#define ET_ARENA_ALIGNMENT 16u

typedef struct {
    uint8_t *base;
    uint32_t capacity;
    uint64_t used; /* or needed, when more than capacity */
} et_arena;

/* Takes count pieces of `size` bytes, each below 4 GiB. NULL when they do not fit, and from an arena without
 * memory, which only counts. */
void *et_arena_take(et_arena *arena, uint32_t count, uint32_t size);

bool et_arena_overflowed(const et_arena *arena);

/* Bytes taken or needed; UINT32_MAX when more than that. */
uint32_t et_arena_used(const et_arena *arena);

#endif
