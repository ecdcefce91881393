// SPDX-License-Identifier: Apache-2.0
#include "arena.h"

#include <stddef.h>

void *etd_arena_take(etd_arena *arena, uint32_t count, uint32_t size) {
    const uint64_t mask = ETD_ARENA_ALIGNMENT - 1u;
    uint64_t bytes = ((uint64_t)count * size + mask) & ~mask;
    uint64_t offset = arena->used;
    arena->used += bytes;
    const bool counts_only = arena->base == NULL;
    return counts_only || etd_arena_overflowed(arena) ? NULL : arena->base + offset;
}

bool etd_arena_overflowed(const etd_arena *arena) {
    return arena->used > arena->capacity;
}

uint32_t etd_arena_used(const etd_arena *arena) {
    return arena->used > UINT32_MAX ? UINT32_MAX : (uint32_t)arena->used;
}
