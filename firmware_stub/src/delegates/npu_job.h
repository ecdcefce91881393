// SPDX-License-Identifier: Apache-2.0
/* Private to the simulated NPU: parsing and computing jobs. The format is in schema/npu.toml. */
#ifndef ETD_NPU_JOB_H
#define ETD_NPU_JOB_H

#include "etd_delegate.h"
#include "npu_format.h"

#define ETD_NPU_COUNTER_MASK ((1u << ETD_NPU_COUNTER_BITS) - 1u)

/* A checked job, which is also the delegate's handle. */
typedef struct {
    const uint8_t *bytes; /* in the file */
    uint32_t size;
    uint32_t argument_count;
    uint32_t operand_count;
    uint32_t command_count;
    uint32_t scratch_size;
    uint32_t lanes;
    uint32_t cycles; /* of all commands; less than one counter wrap */
    uint8_t *scratch;
} etd_npu_job;

typedef struct {
    uint8_t place; /* ETD_NPU_PLACE_* */
    uint32_t argument;
    uint32_t rows;
    uint32_t columns;
    uint32_t offset;
} etd_npu_operand;

typedef struct {
    uint8_t op; /* ETD_NPU_OP_* */
    uint8_t flags;
    uint32_t out;
    uint32_t a;
    uint32_t b;
    uint32_t c;
    uint32_t debug_id;
} etd_npu_command;

typedef struct {
    uint64_t macs;
    uint64_t bytes;
    uint64_t cycles;
} etd_npu_cost;

/* npu_job.c: fills in *job from its bytes, size and lanes. Returns NULL, or a message if the job is
 * invalid. */
const char *etd_npu_check(etd_npu_job *job);

/* Return parts of a checked job. `index` must be below their count. */
etd_npu_operand etd_npu_operand_at(const etd_npu_job *job, uint32_t index);
etd_npu_command etd_npu_command_at(const etd_npu_job *job, uint32_t index);

/* Returns the number of elements of an operand, or 0 for ETD_NPU_NO_OPERAND. */
uint64_t etd_npu_elements(const etd_npu_job *job, uint32_t index);

etd_npu_cost etd_npu_cost_of(const etd_npu_job *job, const etd_npu_command *command);

/* npu_compute.c: checks the arguments of a call. Returns NULL or a message. */
const char *etd_npu_check_arguments(const etd_npu_job *job, const etd_call *call);

void etd_npu_compute(const etd_npu_job *job, const etd_npu_command *command, const etd_call *call);

/* npu_clock.c: returns the NPU's counter at tick `ticks` of clock domain 0. */
uint32_t etd_npu_counter(uint32_t ticks);

/* Waits until `cycles` have passed since tick `since` of clock domain 0. Returns false if that clock does not
 * advance. */
bool etd_npu_wait(const etd_tracer *tracer, uint32_t since, uint32_t cycles);

#endif
