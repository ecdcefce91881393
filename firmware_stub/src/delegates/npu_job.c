// SPDX-License-Identifier: Apache-2.0
/* Parses a job: its parts, their cost, and whether they are valid. */
#include <stddef.h>
#include <string.h>

#include "etd_bytes.h"
#include "npu_job.h"

static uint32_t commands_at(const etd_npu_job *job) {
    return ETD_NPU_HEADER_SIZE + job->operand_count * ETD_NPU_OPERAND_SIZE;
}

etd_npu_operand etd_npu_operand_at(const etd_npu_job *job, uint32_t index) {
    const uint8_t *at = job->bytes + ETD_NPU_HEADER_SIZE + index * ETD_NPU_OPERAND_SIZE;
    return (etd_npu_operand){
        .place = at[0],
        .argument = etd_get_u16(at + 2),
        .rows = etd_get_u16(at + 4),
        .columns = etd_get_u16(at + 6),
        .offset = etd_get_u32(at + 8),
    };
}

etd_npu_command etd_npu_command_at(const etd_npu_job *job, uint32_t index) {
    const uint8_t *at = job->bytes + commands_at(job) + index * ETD_NPU_COMMAND_SIZE;
    return (etd_npu_command){
        .op = at[0],
        .flags = at[1],
        .out = etd_get_u16(at + 2),
        .a = etd_get_u16(at + 4),
        .b = etd_get_u16(at + 6),
        .c = etd_get_u16(at + 8),
        .debug_id = etd_get_u32(at + 12),
    };
}

uint64_t etd_npu_elements(const etd_npu_job *job, uint32_t index) {
    if (index == ETD_NPU_NO_OPERAND) {
        return 0;
    }
    etd_npu_operand operand = etd_npu_operand_at(job, index);
    return (uint64_t)operand.rows * operand.columns;
}

static uint64_t divide_up(uint64_t value, uint32_t by) {
    return (value + by - 1u) / by;
}

etd_npu_cost etd_npu_cost_of(const etd_npu_job *job, const etd_npu_command *command) {
    const uint64_t results = etd_npu_elements(job, command->out);
    const uint64_t terms =
        command->op == ETD_NPU_OP_LINEAR ? etd_npu_operand_at(job, command->a).columns : 1u;
    const uint64_t elements = results + etd_npu_elements(job, command->a) +
                              etd_npu_elements(job, command->b) + etd_npu_elements(job, command->c);
    etd_npu_cost cost = {.macs = results * terms, .bytes = elements * sizeof(float)};
    cost.cycles = ETD_NPU_COMMAND_CYCLES + divide_up(cost.macs, job->lanes) +
                  divide_up(cost.bytes, ETD_NPU_BYTES_PER_CYCLE);
    return cost;
}

static const char *check_operand(const etd_npu_job *job, const etd_npu_operand *operand) {
    uint64_t room = 0;
    switch (operand->place) {
    case ETD_NPU_PLACE_ARGUMENT:
        return operand->argument < job->argument_count ? NULL : "operand: argument out of range";
    case ETD_NPU_PLACE_CONSTANT:
        room = job->size;
        break;
    case ETD_NPU_PLACE_SCRATCH:
        room = job->scratch_size;
        break;
    default:
        return "operand: unknown place";
    }
    const uint64_t bytes = (uint64_t)operand->rows * operand->columns * sizeof(float);
    if (operand->offset > room || bytes > room - operand->offset) {
        return "operand: outside its memory";
    }
    return operand->offset % sizeof(float) == 0 ? NULL : "operand: not aligned";
}

static bool is_operand(const etd_npu_job *job, uint32_t index) {
    return index < job->operand_count && index != ETD_NPU_NO_OPERAND;
}

static bool has_shape(const etd_npu_job *job, uint32_t index, uint32_t rows, uint32_t columns) {
    if (!is_operand(job, index)) {
        return false;
    }
    etd_npu_operand operand = etd_npu_operand_at(job, index);
    return operand.rows == rows && operand.columns == columns;
}

static bool shapes_fit(const etd_npu_job *job, const etd_npu_command *command) {
    if (!is_operand(job, command->out) || !is_operand(job, command->a)) {
        return false;
    }
    const etd_npu_operand out = etd_npu_operand_at(job, command->out);
    const etd_npu_operand a = etd_npu_operand_at(job, command->a);
    const bool alike = out.rows == a.rows && out.columns == a.columns;
    const bool no_b = command->b == ETD_NPU_NO_OPERAND;
    const bool no_c = command->c == ETD_NPU_NO_OPERAND;
    switch (command->op) {
    case ETD_NPU_OP_LINEAR:
        return out.rows == a.rows && has_shape(job, command->b, out.columns, a.columns) &&
               (no_c || has_shape(job, command->c, 1, out.columns));
    case ETD_NPU_OP_ADD:
    case ETD_NPU_OP_MULTIPLY:
        return alike && has_shape(job, command->b, out.rows, out.columns) && no_c;
    case ETD_NPU_OP_RELU:
        return alike && no_b && no_c;
    default:
        return false;
    }
}

static const char *check_command(const etd_npu_job *job, const etd_npu_command *command) {
    if (command->op < ETD_NPU_OP_LINEAR || command->op > ETD_NPU_OP_RELU) {
        return "command: unknown op";
    }
    if ((command->flags & ~(ETD_NPU_FLAG_RELU | ETD_NPU_FLAG_NAMED)) != 0) {
        return "command: unknown flag";
    }
    if (!shapes_fit(job, command)) {
        return "command: operand shapes do not match";
    }
    if (etd_npu_operand_at(job, command->out).place == ETD_NPU_PLACE_CONSTANT) {
        return "command: result is a constant";
    }
    if ((command->flags & ETD_NPU_FLAG_NAMED) != 0 &&
        (command->debug_id >= job->size ||
         memchr(job->bytes + command->debug_id, '\0', job->size - command->debug_id) == NULL)) {
        return "command: unterminated name";
    }
    return NULL;
}

static const char *read_header(etd_npu_job *job) {
    if (job->size < ETD_NPU_HEADER_SIZE || etd_get_u32(job->bytes) != ETD_NPU_MAGIC) {
        return "invalid magic or size";
    }
    if (job->bytes[4] != ETD_NPU_VERSION || job->bytes[5] != ETD_NPU_HEADER_SIZE) {
        return "unsupported format version";
    }
    job->argument_count = etd_get_u16(job->bytes + 6);
    job->operand_count = etd_get_u16(job->bytes + 8);
    job->command_count = etd_get_u16(job->bytes + 10);
    job->scratch_size = etd_get_u32(job->bytes + 12);
    const uint32_t parts = commands_at(job) + job->command_count * ETD_NPU_COMMAND_SIZE;
    return parts <= job->size ? NULL : "truncated job";
}

const char *etd_npu_check(etd_npu_job *job) {
    const char *problem = read_header(job);
    for (uint32_t i = 0; problem == NULL && i < job->operand_count; i++) {
        etd_npu_operand operand = etd_npu_operand_at(job, i);
        problem = check_operand(job, &operand);
    }
    uint64_t cycles = 0;
    for (uint32_t i = 0; problem == NULL && i < job->command_count; i++) {
        etd_npu_command command = etd_npu_command_at(job, i);
        problem = check_command(job, &command);
        cycles += problem == NULL ? etd_npu_cost_of(job, &command).cycles : 0;
        if (cycles > ETD_NPU_COUNTER_MASK) {
            problem = "job exceeds one counter wrap";
        }
    }
    job->cycles = (uint32_t)cycles;
    return problem;
}
