// SPDX-License-Identifier: Apache-2.0
/* Fuzzes the simulated NPU: checks the input as a job and executes it if it is valid. Seed it with the jobs
 * in firmware_stub/models/npu_*.pte, which begin with "ENPU".
 *
 * Job, local memory and arguments are heap blocks of the exact size. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../src/delegates/npu_job.h"

#define MAX_ARGUMENTS 8u

/* Limits, so that an input does not look like a hang or a leak. */
#define MAX_CYCLES 200000u
#define MAX_BYTES (1u << 20)

typedef struct {
    etd_value values[MAX_ARGUMENTS];
    etd_tensor tensors[MAX_ARGUMENTS];
    uint32_t args[MAX_ARGUMENTS];
} arguments;

static uint8_t *zeros(size_t size) {
    uint8_t *block = calloc(size == 0 ? 1 : size, 1);
    if (block == NULL) {
        abort();
    }
    return block;
}

/* Makes a float matrix for an operand. The last operand of an argument determines its shape; others must
 * match. */
static void make_argument(arguments *all, const etd_npu_operand *operand) {
    etd_tensor *tensor = &all->tensors[operand->argument];
    const uint64_t bytes = (uint64_t)operand->rows * operand->columns * sizeof(float);
    const bool fits = bytes <= MAX_BYTES; /* the loader has a limit, too */
    free(tensor->data);
    *tensor = (etd_tensor){
        .sizes = {fits ? (int32_t)operand->rows : 0, (int32_t)operand->columns},
        .strides = {(int32_t)operand->columns, 1},
        .dim_order = {0, 1},
        .ndim = 2,
        .dtype = ETD_FLOAT,
        .nbytes = fits ? (uint32_t)bytes : 0,
    };
    tensor->data = zeros(tensor->nbytes);
}

static void execute(const etd_npu_job *job, arguments *all) {
    const etd_call call = {all->values, MAX_ARGUMENTS, all->args, job->argument_count};
    for (uint32_t i = 0; i < MAX_ARGUMENTS; i++) {
        all->args[i] = i;
        all->values[i].kind = all->tensors[i].data == NULL ? ETD_VALUE_NONE : ETD_VALUE_TENSOR;
        all->values[i].as.tensor = &all->tensors[i];
    }
    if (etd_npu_check_arguments(job, &call) == NULL) {
        for (uint32_t i = 0; i < job->command_count; i++) {
            const etd_npu_command command = etd_npu_command_at(job, i);
            etd_npu_compute(job, &command, &call);
        }
    }
}

static void run(etd_npu_job *job) {
    arguments all;
    memset(&all, 0, sizeof all);
    for (uint32_t i = 0; i < job->operand_count; i++) {
        const etd_npu_operand operand = etd_npu_operand_at(job, i);
        if (operand.place == ETD_NPU_PLACE_ARGUMENT) {
            make_argument(&all, &operand);
        }
    }
    job->scratch = zeros(job->scratch_size);
    execute(job, &all);
    free(job->scratch);
    for (uint32_t i = 0; i < MAX_ARGUMENTS; i++) {
        free(all.tensors[i].data);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = zeros(size);
    memcpy(copy, data, size);
    etd_npu_job job = {.bytes = copy, .size = (uint32_t)size, .lanes = ETD_NPU_DEFAULT_LANES};
    if (etd_npu_check(&job) == NULL && job.argument_count <= MAX_ARGUMENTS && job.cycles <= MAX_CYCLES &&
        job.scratch_size <= MAX_BYTES) {
        run(&job);
    }
    free(copy);
    return 0;
}
