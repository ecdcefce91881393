#include "delegates.h"

#include <stddef.h>
#include <string.h>

#include "program.h"
#include "program_fields.h"

enum { DATA_INLINE = 0, DATA_SEGMENT = 1 };

/* What et_delegate_source hides from a backend. */
struct et_delegate_memory {
    et_loader *loader;
    et_vector specs;
};

et_compile_spec et_delegate_spec(const et_delegate_source *source, uint32_t index) {
    const et_delegate_memory *memory = source->memory;
    et_reader *reader = &memory->loader->reader;
    et_table spec = et_read_table_at(reader, memory->specs, index, "compile_spec");
    et_vector value = et_read_vector(reader, spec, COMPILE_SPEC_VALUE, 1, "compile_spec value");
    const char *key = et_read_string(reader, spec, COMPILE_SPEC_KEY, "compile_spec key").bytes;
    return (et_compile_spec){key, reader->data + value.at, value.count};
}

static void *take(et_loader *loader, uint32_t count, uint32_t size) {
    uint32_t offset = et_arena_used(&loader->arena);
    void *piece = et_arena_take(&loader->arena, count, size);
    if (piece != NULL) {
        et_track_allocation(loader->method->tracer, loader->method_allocator, count * size, offset);
    } else {
        et_track_allocation_failure(loader->method->tracer, loader->method_allocator, count * size);
    }
    return piece;
}

void *et_delegate_take(const et_delegate_source *source, uint32_t size) {
    return take(source->memory->loader, size, 1);
}

void et_delegate_reserve_temporary(const et_delegate_source *source, uint32_t size) {
    et_reserve_temporary(source->memory->loader->method->temporary, size);
}

static const et_delegate *find_backend(const char *name) {
    const et_delegate *const *backend = et_delegates;
    while (*backend != NULL && strcmp((*backend)->name, name) != 0) {
        backend++;
    }
    return *backend;
}

static et_vector plan_delegates(et_loader *loader) {
    return et_read_vector(&loader->reader, loader->plan, EXECUTION_PLAN_DELEGATES, 4, "delegates");
}

static const char *backend_name(et_loader *loader, et_table delegate) {
    return et_read_string(&loader->reader, delegate, BACKEND_DELEGATE_ID, "delegate id").bytes;
}

/* Checks that there is a backend for every delegate, so that none is initialised for nothing. */
static void find_backends(et_loader *loader, et_vector delegates) {
    et_reader *reader = &loader->reader;
    for (uint32_t i = 0; i < delegates.count && reader->status == ET_LINK_STATUS_OK; i++) {
        const char *name = backend_name(loader, et_read_table_at(reader, delegates, i, "delegate"));
        const et_delegate *backend = find_backend(name);
        if (backend == NULL && reader->status == ET_LINK_STATUS_OK) {
            const char *const message[] = {"no backend ", name, " in this firmware", NULL};
            reader->status = et_fail_parts(reader->error, ET_LINK_STATUS_UNSUPPORTED_FEATURE, i, message);
        }
        loader->method->delegates[i].backend = backend;
    }
}

/* Finds the processed bytes, which are in the FlatBuffer or in a segment. */
static void find_data(et_loader *loader, et_table delegate, et_delegate_source *source) {
    et_reader *reader = &loader->reader;
    et_table processed = et_read_table(reader, delegate, BACKEND_DELEGATE_PROCESSED, "processed");
    uint8_t location =
        et_read_u8(reader, processed, BACKEND_DELEGATE_DATA_REFERENCE_LOCATION, "processed location");
    uint32_t index = et_read_u32(reader, processed, BACKEND_DELEGATE_DATA_REFERENCE_INDEX, "processed index");
    const uint8_t *data = NULL;
    if (location == DATA_INLINE) {
        data = et_program_delegate_data(reader, index, &source->size);
    } else if (location == DATA_SEGMENT) {
        data = et_program_segment(reader, loader->program, index, &source->size);
    } else {
        et_reader_fail(reader, ET_LINK_STATUS_UNSUPPORTED_FEATURE, processed.at, "processed location",
                       "unknown");
    }
    source->processed = data;
    if ((uintptr_t)data % sizeof(uint32_t) != 0) {
        et_reader_fail(reader, ET_LINK_STATUS_BAD_PROGRAM, processed.at, "processed", "not aligned");
    }
}

/* Backends read options without a way to fail, so they are read here once. */
static void check_specs(const et_delegate_source *source, et_reader *reader) {
    for (uint32_t i = 0; i < source->spec_count && reader->status == ET_LINK_STATUS_OK; i++) {
        (void)et_delegate_spec(source, i);
    }
}

static void destroy(et_loaded_delegate *delegate) {
    if (delegate->backend->destroy != NULL) {
        delegate->backend->destroy(delegate->handle);
    }
}

static void init_delegate(et_loader *loader, et_table table, et_loaded_delegate *delegate) {
    et_reader *reader = &loader->reader;
    et_delegate_memory memory = {
        .loader = loader,
        .specs = et_read_vector(reader, table, BACKEND_DELEGATE_COMPILE_SPECS, 4, "compile_specs")};
    et_delegate_source source = {
        .tracer = loader->method->tracer, .memory = &memory, .spec_count = memory.specs.count};
    find_data(loader, table, &source);
    check_specs(&source, reader);
    if (reader->status == ET_LINK_STATUS_OK) {
        reader->status = delegate->backend->init(&source, &delegate->handle, reader->error);
    }
    if (et_arena_overflowed(&loader->arena)) {
        if (reader->status == ET_LINK_STATUS_OK) {
            destroy(delegate);
        }
        reader->status = et_fail(reader->error, ET_LINK_STATUS_OUT_OF_MEMORY, et_arena_used(&loader->arena),
                                 "arena: too small for ", delegate->backend->name);
    }
}

void et_method_unload(et_method *method) {
    while (method->delegate_count > 0) {
        destroy(&method->delegates[--method->delegate_count]);
    }
}

void et_load_delegates(et_loader *loader) {
    et_reader *reader = &loader->reader;
    et_method *method = loader->method;
    et_vector delegates = plan_delegates(loader);
    const uint32_t before = et_arena_used(&loader->arena);
    if (reader->status != ET_LINK_STATUS_OK || delegates.count == 0) {
        return;
    }
    method->delegates = take(loader, delegates.count, sizeof(et_loaded_delegate));
    method->temporary = take(loader, 1, sizeof(et_temporary));
    if (method->delegates == NULL || method->temporary == NULL) {
        et_reader_fail(reader, ET_LINK_STATUS_OUT_OF_MEMORY, et_arena_used(&loader->arena), "arena",
                       "too small for the method's delegates");
        return;
    }
    memset(method->temporary, 0, sizeof(et_temporary));
    find_backends(loader, delegates);
    for (uint32_t i = 0; i < delegates.count && reader->status == ET_LINK_STATUS_OK; i++) {
        init_delegate(loader, et_read_table_at(reader, delegates, i, "delegate"), &method->delegates[i]);
        method->delegate_count += reader->status == ET_LINK_STATUS_OK;
    }
    method->delegate_bytes = et_arena_used(&loader->arena) - before;
    method->method_bytes += method->delegate_bytes;
    et_load_temporary(loader);
    if (reader->status != ET_LINK_STATUS_OK) {
        et_method_unload(method);
    }
}
