#include <stddef.h>

#include "delegates.h"

void et_reserve_temporary(et_temporary *temporary, uint32_t size) {
    const uint32_t largest = UINT32_MAX - ET_ARENA_ALIGNMENT + 1u;
    const uint32_t rest = (0u - size) % ET_ARENA_ALIGNMENT;
    const uint32_t wish = size > largest ? largest : size + rest;
    if (wish > temporary->memory.capacity) {
        temporary->memory.capacity = wish;
    }
}

void et_load_temporary(et_loader *loader) {
    et_tracer *tracer = loader->method->tracer;
    et_temporary *temporary = loader->method->temporary;
    const uint32_t size = temporary->memory.capacity;
    if (size == 0 || loader->reader.status != ET_LINK_STATUS_OK) {
        return;
    }
    loader->method->planned_bytes += size;
    temporary->tracer = tracer;
    temporary->allocator = et_track_allocator(tracer, "temporary");
    temporary->memory.base = et_arena_take(&loader->arena, size, 1);
    if (temporary->memory.base == NULL) {
        et_track_allocation_failure(tracer, temporary->allocator, size);
        et_reader_fail(&loader->reader, ET_LINK_STATUS_OUT_OF_MEMORY, et_arena_used(&loader->arena), "arena",
                       "too small for the delegates' temporary memory");
    }
}

void *et_delegate_take_temporary(const et_delegate_run *run, uint32_t size) {
    et_temporary *temporary = run->temporary;
    const uint32_t offset = et_arena_used(&temporary->memory);
    void *piece = et_arena_take(&temporary->memory, size, 1);
    if (piece == NULL) {
        et_track_allocation_failure(temporary->tracer, temporary->allocator, size);
        return NULL;
    }
    et_track_allocation(temporary->tracer, temporary->allocator, size, offset);
    temporary->taken += size;
    return piece;
}

void et_release_temporary(et_temporary *temporary) {
    if (temporary->taken > 0) {
        et_track_free(temporary->tracer, temporary->allocator, temporary->taken, 0);
    }
    temporary->memory.used = 0;
    temporary->taken = 0;
}
