// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

#include "delegates.h"

void etd_reserve_temporary(etd_temporary *temporary, uint32_t size) {
    const uint32_t largest = UINT32_MAX - ETD_ARENA_ALIGNMENT + 1u;
    const uint32_t rest = (0u - size) % ETD_ARENA_ALIGNMENT;
    const uint32_t wish = size > largest ? largest : size + rest;
    if (wish > temporary->memory.capacity) {
        temporary->memory.capacity = wish;
    }
}

void etd_load_temporary(etd_loader *loader) {
    etd_tracer *tracer = loader->method->tracer;
    etd_temporary *temporary = loader->method->temporary;
    const uint32_t size = temporary->memory.capacity;
    if (size == 0 || loader->reader.status != ETD_LINK_STATUS_OK) {
        return;
    }
    loader->method->planned_bytes += size;
    temporary->tracer = tracer;
    temporary->allocator = etd_track_allocator(tracer, "temporary");
    temporary->memory.base = etd_arena_take(&loader->arena, size, 1);
    if (temporary->memory.base == NULL) {
        etd_track_allocation_failure(tracer, temporary->allocator, size);
        etd_reader_fail(&loader->reader, ETD_LINK_STATUS_OUT_OF_MEMORY, etd_arena_used(&loader->arena),
                        "arena", "too small for the delegates' temporary memory");
    }
}

void *etd_delegate_take_temporary(const etd_delegate_run *run, uint32_t size) {
    etd_temporary *temporary = run->temporary;
    const uint32_t offset = etd_arena_used(&temporary->memory);
    void *piece = etd_arena_take(&temporary->memory, size, 1);
    if (piece == NULL) {
        etd_track_allocation_failure(temporary->tracer, temporary->allocator, size);
        return NULL;
    }
    etd_track_allocation(temporary->tracer, temporary->allocator, size, offset);
    temporary->taken += size;
    return piece;
}

void etd_release_temporary(etd_temporary *temporary) {
    if (temporary->taken > 0) {
        etd_track_free(temporary->tracer, temporary->allocator, temporary->taken, 0);
    }
    temporary->memory.used = 0;
    temporary->taken = 0;
}
