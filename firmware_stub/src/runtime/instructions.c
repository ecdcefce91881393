// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>
#include <string.h>

#include "copies.h"
#include "etd_kernel.h"
#include "loader.h"
#include "program_fields.h"

static etd_vector plan_chains(etd_loader *loader) {
    return etd_read_vector(&loader->reader, loader->plan, EXECUTION_PLAN_CHAINS, 4, "chains");
}

static etd_vector chain_instructions(etd_loader *loader, etd_vector chains, uint32_t index) {
    etd_table chain = etd_read_table_at(&loader->reader, chains, index, "chain");
    return etd_read_vector(&loader->reader, chain, CHAIN_INSTRUCTIONS, 4, "instructions");
}

uint32_t etd_count_instructions(etd_loader *loader) {
    etd_reader *reader = &loader->reader;
    etd_vector chains = plan_chains(loader);
    uint64_t total = 0;
    for (uint32_t i = 0; i < chains.count && reader->status == ETD_LINK_STATUS_OK; i++) {
        total += chain_instructions(loader, chains, i).count;
    }
    /* Chains may share a vector, so their total can exceed the file size. */
    if (total > reader->size) {
        etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, chains.at, "instructions",
                        "too many for the file size");
    }
    return (uint32_t)total;
}

uint32_t etd_operator_count(void) {
    return etd_kernel_count;
}

static const etd_kernel *find_kernel(const char *name, const char *overload) {
    for (uint32_t i = 0; i < etd_kernel_count; i++) {
        if (strcmp(etd_kernels[i]->name, name) == 0 && strcmp(etd_kernels[i]->overload, overload) == 0) {
            return etd_kernels[i];
        }
    }
    return NULL;
}

/* Reads the number of a value, for an instruction. */
static uint32_t load_value_number(etd_loader *loader, etd_table table, uint32_t number, const char *field) {
    uint32_t value = etd_read_u32(&loader->reader, table, number, field);
    if (value >= loader->method->value_count) {
        etd_reader_fail(&loader->reader, ETD_LINK_STATUS_BAD_PROGRAM, table.at, field, "no such value");
    }
    return value;
}

static void load_kernel_call(etd_loader *loader, etd_table table, uint32_t index,
                             etd_instruction *instruction) {
    etd_reader *reader = &loader->reader;
    etd_vector operators = etd_read_vector(reader, loader->plan, EXECUTION_PLAN_OPERATORS, 4, "operators");
    uint32_t op = etd_read_u32(reader, table, KERNEL_CALL_OP_INDEX, "op_index");
    if (op >= operators.count) {
        etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, table.at, "op_index", "no such operator");
        return;
    }
    etd_table entry = etd_read_table_at(reader, operators, op, "operator");
    const char *name = etd_read_string(reader, entry, OPERATOR_NAME, "operator name").bytes;
    const char *overload = etd_read_string(reader, entry, OPERATOR_OVERLOAD, "operator overload").bytes;
    if (reader->status != ETD_LINK_STATUS_OK) {
        return;
    }
    const etd_kernel *kernel = find_kernel(name, overload);
    if (kernel == NULL) {
        const char *const message[] = {"no kernel for ", name, etd_dot(overload), overload, NULL};
        reader->status = etd_fail_parts(reader->error, ETD_LINK_STATUS_UNSUPPORTED_OPERATOR, index, message);
        return;
    }
    instruction->as.call.kernel = kernel;
    instruction->as.call.args =
        etd_load_value_numbers(loader, table, KERNEL_CALL_ARGS, "args", &instruction->as.call.count);
    instruction->kernel_name = etd_intern(loader->method->tracer, kernel->event_name);
    if (instruction->as.call.count < etd_least_args(kernel)) {
        etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, table.at, name, "too few arguments");
    }
    etd_reserve_copies(loader, instruction);
}

static void load_delegate_call(etd_loader *loader, etd_table table, etd_instruction *instruction) {
    etd_reader *reader = &loader->reader;
    etd_vector delegates = etd_read_vector(reader, loader->plan, EXECUTION_PLAN_DELEGATES, 4, "delegates");
    instruction->kind = ETD_INSTRUCTION_DELEGATE;
    instruction->as.delegate.index =
        etd_read_u32(reader, table, DELEGATE_CALL_DELEGATE_INDEX, "delegate_index");
    instruction->as.delegate.args =
        etd_load_value_numbers(loader, table, DELEGATE_CALL_ARGS, "args", &instruction->as.delegate.count);
    if (instruction->as.delegate.index >= delegates.count) {
        etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, table.at, "delegate_index", "no such delegate");
    }
}

static bool is_input(const etd_method *method, uint32_t value) {
    for (uint32_t i = 0; i < method->input_count; i++) {
        if (method->inputs[i] == value) {
            return true;
        }
    }
    return false;
}

static void load_move(etd_loader *loader, etd_table table, etd_instruction *instruction) {
    instruction->kind = ETD_INSTRUCTION_MOVE;
    instruction->as.move.from = load_value_number(loader, table, MOVE_CALL_MOVE_FROM, "move_from");
    instruction->as.move.to = load_value_number(loader, table, MOVE_CALL_MOVE_TO, "move_to");
    /* The caller writes inputs through pointers that it already has. */
    if (is_input(loader->method, instruction->as.move.to)) {
        etd_reader_fail(&loader->reader, ETD_LINK_STATUS_UNSUPPORTED_FEATURE, table.at, "MoveCall",
                        "moves to an input");
    }
}

static void load_jump(etd_loader *loader, etd_table table, uint32_t chain_length,
                      etd_instruction *instruction) {
    instruction->kind = ETD_INSTRUCTION_JUMP_FALSE;
    instruction->as.jump.condition =
        load_value_number(loader, table, JUMP_FALSE_CALL_COND_VALUE_INDEX, "cond_value_index");
    instruction->as.jump.destination = etd_read_u32(
        &loader->reader, table, JUMP_FALSE_CALL_DESTINATION_INSTRUCTION, "destination_instruction");
    if (instruction->as.jump.destination > chain_length) {
        etd_reader_fail(&loader->reader, ETD_LINK_STATUS_BAD_PROGRAM, table.at, "destination_instruction",
                        "outside the chain");
    }
}

static void load_instruction(etd_loader *loader, etd_table table, uint32_t index, uint32_t chain_length,
                             etd_instruction *instruction) {
    etd_reader *reader = &loader->reader;
    uint8_t type = etd_read_u8(reader, table, INSTRUCTION_INSTR_ARGS_TYPE, "instruction type");
    etd_table content = etd_read_table(reader, table, INSTRUCTION_INSTR_ARGS, "instruction");
    const char *scope = NULL;
    memset(instruction, 0, sizeof *instruction);
    instruction->kernel_name = ETD_LOG_NO_NAME;
    if (content.at == 0) {
        etd_reader_fail(reader, ETD_LINK_STATUS_BAD_PROGRAM, table.at, "instruction", "missing content");
        return;
    }
    switch (type) {
    case INSTRUCTION_ARGUMENTS_KERNEL_CALL:
        scope = "OPERATOR_CALL";
        load_kernel_call(loader, content, index, instruction);
        break;
    case INSTRUCTION_ARGUMENTS_DELEGATE_CALL:
        scope = "DELEGATE_CALL";
        load_delegate_call(loader, content, instruction);
        break;
    case INSTRUCTION_ARGUMENTS_MOVE_CALL:
        scope = "MOVE_CALL";
        load_move(loader, content, instruction);
        break;
    case INSTRUCTION_ARGUMENTS_JUMP_FALSE_CALL:
        scope = "JF_CALL";
        load_jump(loader, content, chain_length, instruction);
        break;
    case INSTRUCTION_ARGUMENTS_FREE_CALL:
        scope = "FREE_CALL";
        instruction->kind = ETD_INSTRUCTION_FREE;
        (void)load_value_number(loader, content, FREE_CALL_VALUE_INDEX, "value_index");
        break;
    default:
        etd_reader_fail(reader, ETD_LINK_STATUS_UNSUPPORTED_FEATURE, table.at, "instruction", "unknown type");
        break;
    }
    instruction->scope = etd_intern(loader->method->tracer, scope);
}

void etd_load_instructions(etd_loader *loader) {
    etd_reader *reader = &loader->reader;
    etd_method *method = loader->method;
    etd_vector chains = plan_chains(loader);
    uint32_t next = 0;
    for (uint32_t c = 0; c < method->chain_count && reader->status == ETD_LINK_STATUS_OK; c++) {
        etd_vector instructions = chain_instructions(loader, chains, c);
        method->chains[c] = (etd_chain){next, instructions.count};
        for (uint32_t i = 0; i < instructions.count && reader->status == ETD_LINK_STATUS_OK; i++) {
            etd_table table = etd_read_table_at(reader, instructions, i, "instruction");
            load_instruction(loader, table, i, instructions.count, &method->instructions[next + i]);
        }
        next += instructions.count;
    }
    etd_load_copies(loader);
}
