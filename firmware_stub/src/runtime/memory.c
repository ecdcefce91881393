#include <stddef.h>
#include <string.h>

#include "loader.h"
#include "program_fields.h"

/* Takes a piece of what describes the method and traces it. */
static void *take(et_loader *loader, uint32_t allocator, uint32_t count, uint32_t size) {
    uint32_t offset = et_arena_used(&loader->arena);
    void *piece = et_arena_take(&loader->arena, count, size);
    if (piece != NULL) {
        et_track_allocation(loader->method->tracer, allocator, count * size, offset);
    }
    return piece;
}

static void take_method(et_loader *loader, uint32_t chain_count) {
    et_method *method = loader->method;
    uint32_t allocator = et_track_allocator(method->tracer, "method");
    loader->method_allocator = allocator;
    method->values = take(loader, allocator, method->value_count, sizeof(et_value));
    loader->tensors = take(loader, allocator, loader->tensor_count, sizeof(et_tensor));
    method->chains = take(loader, allocator, chain_count, sizeof(et_chain));
    method->instructions = take(loader, allocator, method->instruction_count, sizeof(et_instruction));
    loader->buffers = take(loader, allocator, loader->buffer_count, sizeof(et_buffer));
    method->method_bytes = et_arena_used(&loader->arena);
    if (et_arena_overflowed(&loader->arena)) {
        et_track_allocation_failure(method->tracer, allocator, method->method_bytes);
    }
}

/* "planned_1" for buffer 1; ids have at most ten digits. */
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

static void take_buffer(et_loader *loader, uint32_t id, uint32_t size) {
    char name[20];
    name_buffer(name, id);
    uint32_t allocator = et_track_allocator(loader->method->tracer, name);
    uint8_t *base = et_arena_take(&loader->arena, size, 1);
    if (base == NULL) {
        et_track_allocation_failure(loader->method->tracer, allocator, size);
        return;
    }
    et_track_allocation(loader->method->tracer, allocator, size, 0);
    memset(base, 0, size); /* mutable buffers without an initial state begin the same way each time */
    loader->buffers[id] = (et_buffer){base, size};
}

static void take_buffers(et_loader *loader, et_vector sizes) {
    et_reader *reader = &loader->reader;
    for (uint32_t id = 1; id < sizes.count && reader->status == ET_LINK_STATUS_OK; id++) {
        uint64_t size = et_u64_at(reader, sizes, id);
        if (size > UINT32_MAX) {
            et_reader_fail(reader, ET_LINK_STATUS_BAD_PROGRAM, sizes.at + 8u * id, "non_const_buffer_sizes",
                           "size");
            return;
        }
        take_buffer(loader, id, (uint32_t)size);
    }
}

/* Adds what the inputs or outputs in a list need that the file has not planned memory for, each aligned. */
static void count_unplanned(et_loader *loader, uint32_t list, et_arena *need) {
    et_reader *reader = &loader->reader;
    et_vector numbers = et_read_vector(reader, loader->plan, list, 4, "inputs or outputs");
    et_vector values = et_read_vector(reader, loader->plan, EXECUTION_PLAN_VALUES, 4, "values");
    for (uint32_t i = 0; i < numbers.count && reader->status == ET_LINK_STATUS_OK; i++) {
        uint32_t number = et_u32_at(reader, numbers, i);
        if (number >= values.count) {
            et_reader_fail(reader, ET_LINK_STATUS_BAD_PROGRAM, numbers.at + 4u * i, "inputs or outputs",
                           "no such value");
            return;
        }
        et_table value = et_read_table_at(reader, values, number, "value");
        if (et_read_u8(reader, value, EVALUE_VAL_TYPE, "value type") == KERNEL_TYPES_TENSOR) {
            et_table tensor = et_read_table(reader, value, EVALUE_VAL, "value");
            (void)et_arena_take(need, et_unplanned_size(loader, tensor), 1);
        }
    }
}

static void take_unplanned(et_loader *loader) {
    et_tracer *tracer = loader->method->tracer;
    et_arena need = {0};
    count_unplanned(loader, EXECUTION_PLAN_INPUTS, &need);
    count_unplanned(loader, EXECUTION_PLAN_OUTPUTS, &need);
    uint32_t size = et_arena_used(&need);
    if (size == 0) {
        return;
    }
    uint32_t allocator = et_track_allocator(tracer, "unplanned");
    loader->unplanned = (et_arena){.base = et_arena_take(&loader->arena, size, 1), .capacity = size};
    if (loader->unplanned.base == NULL) {
        et_track_allocation_failure(tracer, allocator, size);
    } else {
        et_track_allocation(tracer, allocator, size, 0);
    }
}

void et_load_memory(et_loader *loader) {
    et_reader *reader = &loader->reader;
    et_method *method = loader->method;
    et_vector chains = et_read_vector(reader, loader->plan, EXECUTION_PLAN_CHAINS, 4, "chains");
    et_vector values = et_read_vector(reader, loader->plan, EXECUTION_PLAN_VALUES, 4, "values");
    et_vector sizes = et_read_vector(reader, loader->plan, EXECUTION_PLAN_NON_CONST_BUFFER_SIZES, 8,
                                     "non_const_buffer_sizes");
    method->value_count = values.count;
    method->chain_count = chains.count;
    method->instruction_count = et_count_instructions(loader);
    loader->tensor_count = et_count_tensors(loader);
    loader->buffer_count = sizes.count;
    if (reader->status != ET_LINK_STATUS_OK) {
        return;
    }
    take_method(loader, chains.count);
    take_buffers(loader, sizes);
    take_unplanned(loader);
    method->planned_bytes = et_arena_used(&loader->arena) - method->method_bytes;
    if (et_arena_overflowed(&loader->arena)) {
        et_reader_fail(reader, ET_LINK_STATUS_OUT_OF_MEMORY, et_arena_used(&loader->arena), "arena",
                       "too small for the method and its planned memory");
    }
}
