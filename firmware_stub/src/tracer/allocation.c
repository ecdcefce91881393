// SPDX-License-Identifier: Apache-2.0
/* Allocators and their allocations. */
#include "tracer_internal.h"

uint32_t etd_track_allocator(etd_tracer *tracer, const char *name) {
    if (tracer == NULL) {
        return 0;
    }
    etd_name name_id = etd_intern(tracer, name);
    uint8_t *at = etd_append(tracer, 1);
    if (at == NULL) {
        tracer->dropped_blocks++;
        return 0;
    }
    uint32_t id = ++tracer->allocator_count;
    etd_put_record(at, etd_head(ETD_LOG_RECORD_ALLOCATOR, 0, name_id), id, 0, 0);
    return id;
}

static int32_t signed_size(uint32_t size) {
    return size > INT32_MAX ? INT32_MAX : (int32_t)size;
}

/* `sign` is 1 for an allocation and -1 for a free. */
static void append_allocation(etd_tracer *tracer, uint32_t allocator, uint32_t size, uint32_t offset,
                              uint32_t flags, int32_t sign) {
    if (tracer == NULL) {
        return;
    }
    uint32_t now = etd_now(tracer);
    /* The record has 16 bits for the id. A larger one is dropped, not truncated to the id of another
     * allocator. */
    if (allocator > UINT16_MAX) {
        etd_set_full(tracer, true);
    }
    uint8_t *at = allocator > 0 ? etd_append(tracer, 1) : NULL;
    if (at == NULL) {
        tracer->dropped_events++;
        return;
    }
    etd_put_record(at, etd_head(ETD_LOG_RECORD_ALLOCATION, flags, allocator), now,
                   (uint32_t)(sign * signed_size(size)), offset);
}

void etd_track_allocation(etd_tracer *tracer, uint32_t allocator, uint32_t size, uint32_t offset) {
    append_allocation(tracer, allocator, size, offset, 0, 1);
}

void etd_track_free(etd_tracer *tracer, uint32_t allocator, uint32_t size, uint32_t offset) {
    append_allocation(tracer, allocator, size, offset, 0, -1);
}

void etd_track_allocation_failure(etd_tracer *tracer, uint32_t allocator, uint32_t size) {
    append_allocation(tracer, allocator, size, ETD_LOG_NO_OFFSET, ETD_LOG_ALLOCATION_FAILED, 1);
}
