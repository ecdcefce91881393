#include <stddef.h>
#include <string.h>

#include "delegates.h"
#include "loader.h"
#include "program.h"
#include "program_fields.h"

enum { METHODS_LISTED = 8 }; /* at most, in a message */

static et_vector read_plans(et_reader *reader) {
    return et_read_vector(reader, et_read_root(reader), PROGRAM_EXECUTION_PLAN, 4, "execution_plan");
}

static const char *plan_name(et_reader *reader, et_table plan) {
    return et_read_string(reader, plan, EXECUTION_PLAN_NAME, "method name").bytes;
}

/* Says which methods there are. */
static void refuse_name(et_reader *reader, const char *name) {
    const char *parts[2 + 2 * METHODS_LISTED + 1] = {name, ": no such method"};
    uint32_t count = 2;
    const et_vector plans = read_plans(reader);
    for (uint32_t i = 0; i < plans.count && i < METHODS_LISTED; i++) {
        parts[count++] = i == 0 ? "; there are " : ", ";
        parts[count++] = plan_name(reader, et_read_table_at(reader, plans, i, "execution_plan"));
    }
    if (reader->status == ET_LINK_STATUS_OK) {
        reader->status = et_fail_parts(reader->error, ET_LINK_STATUS_NO_METHOD, plans.count, parts);
    }
}

/* Finds the method's plan, and its name where it lasts as long as the program. */
static void find_plan(et_loader *loader, const char *name) {
    et_reader *reader = &loader->reader;
    const et_vector plans = read_plans(reader);
    for (uint32_t i = 0; i < plans.count && reader->status == ET_LINK_STATUS_OK; i++) {
        et_table plan = et_read_table_at(reader, plans, i, "execution_plan");
        const char *found = plan_name(reader, plan);
        if (strcmp(found, name) == 0) {
            loader->plan = plan;
            loader->method->name = found;
            return;
        }
    }
    refuse_name(reader, name);
}

/* Gives memory to inputs or outputs that the file has planned none for. */
static void place_unplanned(et_loader *loader, const uint32_t *numbers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const et_value *value = &loader->method->values[numbers[i]];
        if (value->kind == ET_VALUE_TENSOR && value->as.tensor->data == NULL) {
            value->as.tensor->data = et_arena_take(&loader->unplanned, value->as.tensor->nbytes, 1);
        }
    }
}

/* The caller writes inputs, which a constant cannot be. */
static void check_inputs(et_loader *loader) {
    const et_method *method = loader->method;
    for (uint32_t i = 0; i < method->input_count; i++) {
        const et_value *value = &method->values[method->inputs[i]];
        if (value->kind == ET_VALUE_TENSOR && value->as.tensor->constant) {
            et_reader_fail(&loader->reader, ET_LINK_STATUS_UNSUPPORTED_FEATURE, loader->plan.at, "input",
                           "a constant");
            return;
        }
    }
}

static void init_method(et_loader *loader) {
    et_method *method = loader->method;
    et_reader *reader = &loader->reader;
    et_load_memory(loader);
    if (reader->status != ET_LINK_STATUS_OK) {
        return;
    }
    et_load_values(loader);
    method->inputs =
        et_load_value_numbers(loader, loader->plan, EXECUTION_PLAN_INPUTS, "inputs", &method->input_count);
    method->outputs =
        et_load_value_numbers(loader, loader->plan, EXECUTION_PLAN_OUTPUTS, "outputs", &method->output_count);
    check_inputs(loader);
    place_unplanned(loader, method->inputs, method->input_count);
    place_unplanned(loader, method->outputs, method->output_count);
    et_load_instructions(loader);
    et_load_delegates(loader); /* last, so that nothing fails behind them */
}

et_status et_method_load(et_method *method, const et_program *program, const char *name, void *arena,
                         uint32_t arena_size, et_tracer *tracer, et_error *error) {
    memset(method, 0, sizeof *method);
    if ((uintptr_t)arena % ET_ARENA_ALIGNMENT != 0) {
        return et_fail(error, ET_LINK_STATUS_BAD_REQUEST, 0, "arena: not aligned to 16 bytes", NULL);
    }
    method->tracer = tracer;
    et_create_event_block(tracer, "Default");
    method->instruction_budget = ET_INSTRUCTION_BUDGET;
    method->execute_name = et_intern(tracer, "Method::execute");
    et_name init_name = et_intern(tracer, "Method::init");
    et_set_chain_debug_handle(tracer, ET_UNSET_CHAIN, ET_UNSET_HANDLE);
    et_event load_event = et_start_profiling(tracer, "Program::load_method", ET_UNSET_CHAIN, ET_UNSET_HANDLE);
    et_loader loader = {
        .program = program,
        .method = method,
        .reader = et_program_reader(program, error),
        .arena = {arena, arena_size, 0},
    };
    find_plan(&loader, name);
    et_event init_event = et_start_profiling_interned(tracer, init_name, ET_UNSET_CHAIN, ET_UNSET_HANDLE);
    if (loader.reader.status == ET_LINK_STATUS_OK) {
        init_method(&loader);
    }
    if (loader.reader.status != ET_LINK_STATUS_OK) {
        method->input_count = method->output_count = method->chain_count = 0;
    }
    et_end_profiling(tracer, init_event);
    et_end_profiling(tracer, load_event);
    return loader.reader.status;
}

static et_tensor *tensor_in(const et_method *method, const uint32_t *numbers, uint32_t count,
                            uint32_t index) {
    if (index >= count) {
        return NULL;
    }
    const et_value *value = &method->values[numbers[index]];
    return value->kind == ET_VALUE_TENSOR && value->as.tensor->data != NULL ? value->as.tensor : NULL;
}

et_tensor *et_method_input(const et_method *method, uint32_t index) {
    return tensor_in(method, method->inputs, method->input_count, index);
}

const void *et_method_trace(const et_method *method, uint32_t index, uint32_t *size) {
    (void)method;
    (void)index;
    (void)size;
    return NULL; /* the tracer has it all */
}

et_tensor *et_method_output(const et_method *method, uint32_t index) {
    return tensor_in(method, method->outputs, method->output_count, index);
}
