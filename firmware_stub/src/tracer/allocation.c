/* Allocators and what they give. */
#include "internal.h"

uint32_t et_track_allocator(et_tracer *tracer, const char *name) {
    if (tracer == NULL) {
        return 0;
    }
    et_name name_id = et_intern(tracer, name);
    uint8_t *at = et_append(tracer, 1);
    if (at == NULL) {
        tracer->dropped_blocks++;
        return 0;
    }
    uint32_t id = ++tracer->allocator_count;
    et_put_record(at, et_head(ET_LOG_RECORD_ALLOCATOR, 0, name_id), id, 0, 0);
    return id;
}

static int32_t signed_size(uint32_t size) {
    return size > INT32_MAX ? INT32_MAX : (int32_t)size;
}

/* `sign` is 1 for what is taken and -1 for what is given back. */
static void append_allocation(et_tracer *tracer, uint32_t allocator, uint32_t size, uint32_t offset,
                              uint32_t flags, int32_t sign) {
    if (tracer == NULL) {
        return;
    }
    uint32_t now = tracer->ticks();
    /* An id that the record cannot hold is dropped like an event that does not fit, not cut to another id. */
    if (allocator > UINT16_MAX) {
        et_set_full(tracer, true);
    }
    uint8_t *at = allocator > 0 ? et_append(tracer, 1) : NULL;
    if (at == NULL) {
        tracer->dropped_events++;
        return;
    }
    et_put_record(at, et_head(ET_LOG_RECORD_ALLOCATION, flags, allocator), now,
                  (uint32_t)(sign * signed_size(size)), offset);
}

void et_track_allocation(et_tracer *tracer, uint32_t allocator, uint32_t size, uint32_t offset) {
    append_allocation(tracer, allocator, size, offset, 0, 1);
}

void et_track_free(et_tracer *tracer, uint32_t allocator, uint32_t size, uint32_t offset) {
    append_allocation(tracer, allocator, size, offset, 0, -1);
}

void et_track_allocation_failure(et_tracer *tracer, uint32_t allocator, uint32_t size) {
    append_allocation(tracer, allocator, size, ET_LOG_NO_OFFSET, ET_LOG_ALLOCATION_FAILED, 1);
}
