// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>
#include <string.h>

#include "delegates.h"
#include "loader.h"
#include "program.h"
#include "program_fields.h"

enum { METHODS_LISTED = 8 }; /* limit of a message */

/* Debug probes read outputs by these offsets (schema/compact_log.toml), where pointers have 32 bits. */
#define ETD_METHOD_IS(condition)                                                                             \
    _Static_assert(sizeof(void *) != 4u || (condition), "a method is not as debug probes expect it")
ETD_METHOD_IS(offsetof(etd_method, tracer) == ETD_LOG_METHOD_FIELD_TRACER);
ETD_METHOD_IS(offsetof(etd_method, name) == ETD_LOG_METHOD_FIELD_NAME);
ETD_METHOD_IS(offsetof(etd_method, values) == ETD_LOG_METHOD_FIELD_VALUES);
ETD_METHOD_IS(offsetof(etd_method, outputs) == ETD_LOG_METHOD_FIELD_OUTPUTS);
ETD_METHOD_IS(offsetof(etd_method, value_count) == ETD_LOG_METHOD_FIELD_VALUE_COUNT);
ETD_METHOD_IS(offsetof(etd_method, instruction_count) == ETD_LOG_METHOD_FIELD_INSTRUCTION_COUNT);
ETD_METHOD_IS(offsetof(etd_method, input_count) == ETD_LOG_METHOD_FIELD_INPUT_COUNT);
ETD_METHOD_IS(offsetof(etd_method, output_count) == ETD_LOG_METHOD_FIELD_OUTPUT_COUNT);
ETD_METHOD_IS(sizeof(etd_value) == ETD_LOG_METHOD_VALUE_SIZE);
ETD_METHOD_IS(ETD_VALUE_TENSOR == ETD_LOG_METHOD_VALUE_TENSOR);
ETD_METHOD_IS(offsetof(etd_value, kind) == ETD_LOG_VALUE_FIELD_KIND);
ETD_METHOD_IS(offsetof(etd_value, as) == ETD_LOG_VALUE_FIELD_TENSOR);
ETD_METHOD_IS(offsetof(etd_tensor, data) == ETD_LOG_TENSOR_FIELD_DATA);
ETD_METHOD_IS(offsetof(etd_tensor, nbytes) == ETD_LOG_TENSOR_FIELD_NBYTES);
ETD_METHOD_IS(offsetof(etd_tensor, capacity) == ETD_LOG_TENSOR_FIELD_CAPACITY);
ETD_METHOD_IS(offsetof(etd_tensor, sizes) == ETD_LOG_TENSOR_FIELD_SIZES);
ETD_METHOD_IS(offsetof(etd_tensor, dim_order) == ETD_LOG_TENSOR_FIELD_DIM_ORDER);
ETD_METHOD_IS(offsetof(etd_tensor, ndim) == ETD_LOG_TENSOR_FIELD_NDIM);
ETD_METHOD_IS(offsetof(etd_tensor, dtype) == ETD_LOG_TENSOR_FIELD_DTYPE);

static etd_vector read_plans(etd_reader *reader) {
    return etd_read_vector(reader, etd_read_root(reader), PROGRAM_EXECUTION_PLAN, 4, "execution_plan");
}

static const char *plan_name(etd_reader *reader, etd_table plan) {
    return etd_read_string(reader, plan, EXECUTION_PLAN_NAME, "method name").bytes;
}

/* Fails with a message that lists the methods of the program. */
static void refuse_name(etd_reader *reader, const char *name) {
    const char *parts[2 + 2 * METHODS_LISTED + 1] = {name, ": method not found"};
    uint32_t count = 2;
    const etd_vector plans = read_plans(reader);
    for (uint32_t i = 0; i < plans.count && i < METHODS_LISTED; i++) {
        parts[count++] = i == 0 ? "; available: " : ", ";
        parts[count++] = plan_name(reader, etd_read_table_at(reader, plans, i, "execution_plan"));
    }
    if (reader->status == ETD_LINK_STATUS_OK) {
        reader->status = etd_fail_parts(reader->error, ETD_LINK_STATUS_NO_METHOD, plans.count, parts);
    }
}

/* Finds the plan of a method, and its name in the program, which outlives `name`. */
static void find_plan(etd_loader *loader, const char *name) {
    etd_reader *reader = &loader->reader;
    const etd_vector plans = read_plans(reader);
    for (uint32_t i = 0; i < plans.count && reader->status == ETD_LINK_STATUS_OK; i++) {
        etd_table plan = etd_read_table_at(reader, plans, i, "execution_plan");
        const char *found = plan_name(reader, plan);
        if (strcmp(found, name) == 0) {
            loader->plan = plan;
            loader->method->name = found;
            return;
        }
    }
    refuse_name(reader, name);
}

/* Assigns memory to inputs or outputs without planned memory. */
static void place_unplanned(etd_loader *loader, const uint32_t *numbers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const etd_value *value = &loader->method->values[numbers[i]];
        if (value->kind == ETD_VALUE_TENSOR && value->as.tensor->data == NULL) {
            value->as.tensor->data = etd_arena_take(&loader->unplanned, value->as.tensor->nbytes, 1);
        }
    }
}

/* Inputs must be writable, so they cannot be constants. */
static void check_inputs(etd_loader *loader) {
    const etd_method *method = loader->method;
    for (uint32_t i = 0; i < method->input_count; i++) {
        const etd_value *value = &method->values[method->inputs[i]];
        if (value->kind == ETD_VALUE_TENSOR && value->as.tensor->constant) {
            etd_reader_fail(&loader->reader, ETD_LINK_STATUS_UNSUPPORTED_FEATURE, loader->plan.at, "input",
                            "is a constant");
            return;
        }
    }
}

static void init_method(etd_loader *loader) {
    etd_method *method = loader->method;
    etd_reader *reader = &loader->reader;
    etd_load_memory(loader);
    if (reader->status != ETD_LINK_STATUS_OK) {
        return;
    }
    etd_load_values(loader);
    method->inputs =
        etd_load_value_numbers(loader, loader->plan, EXECUTION_PLAN_INPUTS, "inputs", &method->input_count);
    method->outputs = etd_load_value_numbers(loader, loader->plan, EXECUTION_PLAN_OUTPUTS, "outputs",
                                             &method->output_count);
    check_inputs(loader);
    place_unplanned(loader, method->inputs, method->input_count);
    place_unplanned(loader, method->outputs, method->output_count);
    etd_load_instructions(loader);
    etd_load_delegates(loader); /* last, because a later failure would have to destroy them */
}

etd_status etd_method_load(etd_method *method, const etd_program *program, const char *name, void *arena,
                           uint32_t arena_size, etd_tracer *tracer, etd_error *error) {
    memset(method, 0, sizeof *method);
    if ((uintptr_t)arena % ETD_ARENA_ALIGNMENT != 0) {
        return etd_fail(error, ETD_LINK_STATUS_BAD_REQUEST, 0, "arena: not aligned to 16 bytes", NULL);
    }
    method->tracer = tracer;
    etd_create_event_block(tracer, "Default");
    method->instruction_budget = ETD_INSTRUCTION_BUDGET;
    method->execute_name = etd_intern(tracer, "Method::execute");
    etd_name init_name = etd_intern(tracer, "Method::init");
    etd_set_chain_debug_handle(tracer, ETD_UNSET_CHAIN, ETD_UNSET_HANDLE);
    etd_event load_event =
        etd_start_profiling(tracer, "Program::load_method", ETD_UNSET_CHAIN, ETD_UNSET_HANDLE);
    etd_loader loader = {
        .program = program,
        .method = method,
        .reader = etd_program_reader(program, error),
        .arena = {arena, arena_size, 0},
    };
    find_plan(&loader, name);
    etd_event init_event = etd_start_profiling_interned(tracer, init_name, ETD_UNSET_CHAIN, ETD_UNSET_HANDLE);
    if (loader.reader.status == ETD_LINK_STATUS_OK) {
        init_method(&loader);
    }
    if (loader.reader.status != ETD_LINK_STATUS_OK) {
        method->input_count = method->output_count = method->chain_count = 0;
    }
    etd_end_profiling(tracer, init_event);
    etd_end_profiling(tracer, load_event);
    return loader.reader.status;
}

static etd_tensor *tensor_in(const etd_method *method, const uint32_t *numbers, uint32_t count,
                             uint32_t index) {
    if (index >= count) {
        return NULL;
    }
    const etd_value *value = &method->values[numbers[index]];
    return value->kind == ETD_VALUE_TENSOR && value->as.tensor->data != NULL ? value->as.tensor : NULL;
}

etd_tensor *etd_method_input(const etd_method *method, uint32_t index) {
    return tensor_in(method, method->inputs, method->input_count, index);
}

const void *etd_method_trace(const etd_method *method, uint32_t index, uint32_t *size) {
    (void)method;
    (void)index;
    (void)size;
    return NULL; /* the tracer has the whole trace */
}

etd_tensor *etd_method_output(const etd_method *method, uint32_t index) {
    return tensor_in(method, method->outputs, method->output_count, index);
}
