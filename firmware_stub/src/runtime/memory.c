// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>
#include <string.h>

#include "loader.h"
#include "program_fields.h"

/* Allocates a part of the method's description and traces the allocation. */
static void *take(etd_loader *loader, uint32_t allocator, uint32_t count, uint32_t size) {
    uint32_t offset = etd_arena_used(&loader->arena);
    void *piece = etd_arena_take(&loader->arena, count, size);
    if (piece != NULL) {
        etd_track_allocation(loader->method->tracer, allocator, count * size, offset);
    }
    return piece;
}

static void take_method(etd_loader *loader, uint32_t chain_count) {
    etd_method *method = loader->method;
    uint32_t allocator = etd_track_allocator(method->tracer, "method");
    loader->method_allocator = allocator;
    method->values = take(loader, allocator, method->value_count, sizeof(etd_value));
    loader->tensors = take(loader, allocator, loader->tensor_count, sizeof(etd_tensor));
    method->chains = take(loader, allocator, chain_count, sizeof(etd_chain));
    method->instructions = take(loader, allocator, method->instruction_count, sizeof(etd_instruction));
    loader->buffers = take(loader, allocator, loader->buffer_count, sizeof(etd_buffer));
    method->method_bytes = etd_arena_used(&loader->arena);
    if (etd_arena_overflowed(&loader->arena)) {
        etd_track_allocation_failure(method->tracer, allocator, method->method_bytes);
    }
}

/* Names buffer 1 "planned_1", and so on; ids have at most ten digits. */
static void name_buffer(char name[20], uint32_t id) {
    static const char prefix[] = "planned_";
    uint32_t length = 0;
    while (prefix[length] != '\0') {
        name[length] = prefix[length];
        length++;
    }
    uint32_t digits = 1;
    for (uint32_t rest = id / 10u; rest != 0; rest /= 10u) {
        digits++;
    }
    name[length + digits] = '\0';
    for (; digits > 0; digits--, id /= 10u) {
        name[length + digits - 1u] = (char)('0' + id % 10u);
    }
}

static void take_buffer(etd_loader *loader, uint32_t id, uint32_t size) {
    char name[20];
    name_buffer(name, id);
    uint32_t allocator = etd_track_allocator(loader->method->tracer, name);
    uint8_t *base = etd_arena_take(&loader->arena, size, 1);
    if (base == NULL) {
        etd_track_allocation_failure(loader->method->tracer, allocator, size);
        return;
    }
    etd_track_allocation(loader->method->tracer, allocator, size, 0);
    memset(base, 0, size); /* mutable buffers without an initial state start the same way each time */
    loader->buffers[id] = (etd_buffer){base, size};
}

static void take_buffers(etd_loader *loader, etd_vector sizes) {
    etd_reader *reader = &loader->reader;
    for (uint32_t id = 1; id < sizes.count && reader->status == ETD_LINK_STATUS_OK; id++) {
        uint64_t size = etd_u64_at(reader, sizes, id);
        if (size > UINT32_MAX) {
            etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, sizes.at + 8u * id, "non_const_buffer_sizes",
                            "size too large");
            return;
        }
        take_buffer(loader, id, (uint32_t)size);
    }
}

/* Adds the sizes of inputs or outputs in a list that have no planned memory. */
static void count_unplanned(etd_loader *loader, uint32_t list, etd_arena *need) {
    etd_reader *reader = &loader->reader;
    etd_vector numbers = etd_read_vector(reader, loader->plan, list, 4, "inputs or outputs");
    etd_vector values = etd_read_vector(reader, loader->plan, EXECUTION_PLAN_VALUES, 4, "values");
    for (uint32_t i = 0; i < numbers.count && reader->status == ETD_LINK_STATUS_OK; i++) {
        uint32_t number = etd_u32_at(reader, numbers, i);
        if (number >= values.count) {
            etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, numbers.at + 4u * i, "inputs or outputs",
                            "no such value");
            return;
        }
        etd_table value = etd_read_table_at(reader, values, number, "value");
        if (etd_read_u8(reader, value, EVALUE_VAL_TYPE, "value type") == KERNEL_TYPES_TENSOR) {
            etd_table tensor = etd_read_table(reader, value, EVALUE_VAL, "value");
            (void)etd_arena_take(need, etd_unplanned_size(loader, tensor), 1);
        }
    }
}

static void take_unplanned(etd_loader *loader) {
    etd_tracer *tracer = loader->method->tracer;
    etd_arena need = {0};
    count_unplanned(loader, EXECUTION_PLAN_INPUTS, &need);
    count_unplanned(loader, EXECUTION_PLAN_OUTPUTS, &need);
    uint32_t size = etd_arena_used(&need);
    if (size == 0) {
        return;
    }
    uint32_t allocator = etd_track_allocator(tracer, "unplanned");
    loader->unplanned = (etd_arena){.base = etd_arena_take(&loader->arena, size, 1), .capacity = size};
    if (loader->unplanned.base == NULL) {
        etd_track_allocation_failure(tracer, allocator, size);
    } else {
        etd_track_allocation(tracer, allocator, size, 0);
    }
}

void etd_load_memory(etd_loader *loader) {
    etd_reader *reader = &loader->reader;
    etd_method *method = loader->method;
    etd_vector chains = etd_read_vector(reader, loader->plan, EXECUTION_PLAN_CHAINS, 4, "chains");
    etd_vector values = etd_read_vector(reader, loader->plan, EXECUTION_PLAN_VALUES, 4, "values");
    etd_vector sizes = etd_read_vector(reader, loader->plan, EXECUTION_PLAN_NON_CONST_BUFFER_SIZES, 8,
                                       "non_const_buffer_sizes");
    method->value_count = values.count;
    method->chain_count = chains.count;
    method->instruction_count = etd_count_instructions(loader);
    loader->tensor_count = etd_count_tensors(loader);
    loader->buffer_count = sizes.count;
    if (reader->status != ETD_LINK_STATUS_OK) {
        return;
    }
    take_method(loader, chains.count);
    take_buffers(loader, sizes);
    take_unplanned(loader);
    method->planned_bytes = etd_arena_used(&loader->arena) - method->method_bytes;
    if (etd_arena_overflowed(&loader->arena)) {
        etd_reader_fail(reader, ETD_LINK_STATUS_OUT_OF_MEMORY, etd_arena_used(&loader->arena), "arena",
                        "too small for the method and its planned memory");
    }
}
