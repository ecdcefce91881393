// SPDX-License-Identifier: Apache-2.0
#include "delegates.h"

#include <stddef.h>
#include <string.h>

#include "program.h"
#include "program_fields.h"

enum { DATA_INLINE = 0, DATA_SEGMENT = 1 };

/* The private part of etd_delegate_source. */
struct etd_delegate_memory {
    etd_loader *loader;
    etd_vector specs;
};

etd_compile_spec etd_delegate_spec(const etd_delegate_source *source, uint32_t index) {
    const etd_delegate_memory *memory = source->memory;
    etd_reader *reader = &memory->loader->reader;
    etd_table spec = etd_read_table_at(reader, memory->specs, index, "compile_spec");
    etd_vector value = etd_read_vector(reader, spec, COMPILE_SPEC_VALUE, 1, "compile_spec value");
    const char *key = etd_read_string(reader, spec, COMPILE_SPEC_KEY, "compile_spec key").bytes;
    return (etd_compile_spec){key, reader->data + value.at, value.count};
}

static void *take(etd_loader *loader, uint32_t count, uint32_t size) {
    uint32_t offset = etd_arena_used(&loader->arena);
    void *piece = etd_arena_take(&loader->arena, count, size);
    if (piece != NULL) {
        etd_track_allocation(loader->method->tracer, loader->method_allocator, count * size, offset);
    } else {
        etd_track_allocation_failure(loader->method->tracer, loader->method_allocator, count * size);
    }
    return piece;
}

void *etd_delegate_take(const etd_delegate_source *source, uint32_t size) {
    return take(source->memory->loader, size, 1);
}

void etd_delegate_reserve_temporary(const etd_delegate_source *source, uint32_t size) {
    etd_reserve_temporary(source->memory->loader->method->temporary, size);
}

static const etd_delegate *find_backend(const char *name) {
    const etd_delegate *const *backend = etd_delegates;
    while (*backend != NULL && strcmp((*backend)->name, name) != 0) {
        backend++;
    }
    return *backend;
}

static etd_vector plan_delegates(etd_loader *loader) {
    return etd_read_vector(&loader->reader, loader->plan, EXECUTION_PLAN_DELEGATES, 4, "delegates");
}

static const char *backend_name(etd_loader *loader, etd_table delegate) {
    return etd_read_string(&loader->reader, delegate, BACKEND_DELEGATE_ID, "delegate id").bytes;
}

/* Checks that every delegate has a backend before any of them is initialized. */
static void find_backends(etd_loader *loader, etd_vector delegates) {
    etd_reader *reader = &loader->reader;
    for (uint32_t i = 0; i < delegates.count && reader->status == ETD_LINK_STATUS_OK; i++) {
        const char *name = backend_name(loader, etd_read_table_at(reader, delegates, i, "delegate"));
        const etd_delegate *backend = find_backend(name);
        if (backend == NULL && reader->status == ETD_LINK_STATUS_OK) {
            const char *const message[] = {"no backend ", name, " in this firmware", NULL};
            reader->status = etd_fail_parts(reader->error, ETD_LINK_STATUS_UNSUPPORTED_FEATURE, i, message);
        }
        loader->method->delegates[i].backend = backend;
    }
}

/* Finds the processed bytes, in the FlatBuffer or in a segment. */
static void find_data(etd_loader *loader, etd_table delegate, etd_delegate_source *source) {
    etd_reader *reader = &loader->reader;
    etd_table processed = etd_read_table(reader, delegate, BACKEND_DELEGATE_PROCESSED, "processed");
    uint8_t location =
        etd_read_u8(reader, processed, BACKEND_DELEGATE_DATA_REFERENCE_LOCATION, "processed location");
    uint32_t index =
        etd_read_u32(reader, processed, BACKEND_DELEGATE_DATA_REFERENCE_INDEX, "processed index");
    const uint8_t *data = NULL;
    if (location == DATA_INLINE) {
        data = etd_program_delegate_data(reader, index, &source->size);
    } else if (location == DATA_SEGMENT) {
        data = etd_program_segment(reader, loader->program, index, &source->size);
    } else {
        etd_reader_fail(reader, ETD_LINK_STATUS_UNSUPPORTED_FEATURE, processed.at, "processed location",
                        "unknown value");
    }
    source->processed = data;
    if ((uintptr_t)data % sizeof(uint32_t) != 0) {
        etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, processed.at, "processed", "not aligned");
    }
}

/* etd_delegate_spec cannot report a failure, so all options are checked once here. */
static void check_specs(const etd_delegate_source *source, etd_reader *reader) {
    for (uint32_t i = 0; i < source->spec_count && reader->status == ETD_LINK_STATUS_OK; i++) {
        (void)etd_delegate_spec(source, i);
    }
}

static void destroy(etd_loaded_delegate *delegate) {
    if (delegate->backend->destroy != NULL) {
        delegate->backend->destroy(delegate->handle);
    }
}

static void init_delegate(etd_loader *loader, etd_table table, etd_loaded_delegate *delegate) {
    etd_reader *reader = &loader->reader;
    etd_delegate_memory memory = {
        .loader = loader,
        .specs = etd_read_vector(reader, table, BACKEND_DELEGATE_COMPILE_SPECS, 4, "compile_specs")};
    etd_delegate_source source = {
        .tracer = loader->method->tracer, .memory = &memory, .spec_count = memory.specs.count};
    find_data(loader, table, &source);
    source.context = delegate->backend->context;
    check_specs(&source, reader);
    if (reader->status == ETD_LINK_STATUS_OK) {
        reader->status = delegate->backend->init(&source, &delegate->handle, reader->error);
    }
    if (etd_arena_overflowed(&loader->arena)) {
        if (reader->status == ETD_LINK_STATUS_OK) {
            destroy(delegate);
        }
        reader->status =
            etd_fail(reader->error, ETD_LINK_STATUS_OUT_OF_MEMORY, etd_arena_used(&loader->arena),
                     "arena: too small for ", delegate->backend->name);
    }
}

void etd_method_unload(etd_method *method) {
    while (method->delegate_count > 0) {
        destroy(&method->delegates[--method->delegate_count]);
    }
}

void etd_load_delegates(etd_loader *loader) {
    etd_reader *reader = &loader->reader;
    etd_method *method = loader->method;
    etd_vector delegates = plan_delegates(loader);
    const uint32_t before = etd_arena_used(&loader->arena);
    if (reader->status != ETD_LINK_STATUS_OK || delegates.count == 0) {
        return;
    }
    method->delegates = take(loader, delegates.count, sizeof(etd_loaded_delegate));
    method->temporary = take(loader, 1, sizeof(etd_temporary));
    if (method->delegates == NULL || method->temporary == NULL) {
        etd_reader_fail(reader, ETD_LINK_STATUS_OUT_OF_MEMORY, etd_arena_used(&loader->arena), "arena",
                        "too small for the method's delegates");
        return;
    }
    memset(method->temporary, 0, sizeof(etd_temporary));
    find_backends(loader, delegates);
    for (uint32_t i = 0; i < delegates.count && reader->status == ETD_LINK_STATUS_OK; i++) {
        init_delegate(loader, etd_read_table_at(reader, delegates, i, "delegate"), &method->delegates[i]);
        method->delegate_count += reader->status == ETD_LINK_STATUS_OK;
    }
    method->delegate_bytes = etd_arena_used(&loader->arena) - before;
    method->method_bytes += method->delegate_bytes;
    etd_load_temporary(loader);
    if (reader->status != ETD_LINK_STATUS_OK) {
        etd_method_unload(method);
    }
}
