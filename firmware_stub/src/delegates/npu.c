// SPDX-License-Identifier: Apache-2.0
/* The backend: checks jobs when a method is loaded, executes and logs them when it is called. */
#include <stddef.h>
#include <string.h>

#include "etd_bytes.h"
#include "etd_npu.h"
#include "npu_job.h"

static etd_status refuse(etd_error *error, const char *problem) {
    return etd_fail(error, ETD_LINK_STATUS_BAD_PROGRAM, 0, "SimulatedNpu: ", problem);
}

/* Returns the option "lanes", or 0 if it is not a number in range. */
static uint32_t read_lanes(const etd_delegate_source *source) {
    uint32_t lanes = ETD_NPU_DEFAULT_LANES;
    for (uint32_t i = 0; i < source->spec_count; i++) {
        const etd_compile_spec spec = etd_delegate_spec(source, i);
        if (strcmp(spec.key, "lanes") == 0) {
            lanes = spec.size == sizeof lanes ? etd_get_u32(spec.value) : 0;
        }
    }
    return lanes <= ETD_NPU_MAX_LANES ? lanes : 0;
}

static etd_status init(const etd_delegate_source *source, void **handle, etd_error *error) {
    etd_npu_job job = {.bytes = source->processed, .size = source->size, .lanes = read_lanes(source)};
    const char *problem = job.lanes > 0 ? etd_npu_check(&job) : "lanes out of range";
    if (problem != NULL) {
        return refuse(error, problem);
    }
    etd_delegate_reserve_temporary(source, job.scratch_size);
    etd_npu_job *kept = etd_delegate_take(source, sizeof job);
    if (kept == NULL) {
        return refuse(error, "out of memory");
    }
    *kept = job;
    *handle = kept;
    return ETD_LINK_STATUS_OK;
}

/* Logs the commands of a job. They follow each other without a gap; the first began at `start`. */
static void log_commands(const etd_npu_job *job, etd_tracer *tracer, uint32_t start) {
    for (uint32_t i = 0; i < job->command_count; i++) {
        const etd_npu_command command = etd_npu_command_at(job, i);
        const etd_npu_cost cost = etd_npu_cost_of(job, &command);
        const bool named = (command.flags & ETD_NPU_FLAG_NAMED) != 0;
        const char *name = named ? (const char *)job->bytes + command.debug_id : NULL;
        const int32_t id = named ? ETD_UNSET_DELEGATE_ID : (int32_t)command.debug_id;
        const uint32_t end = (start + (uint32_t)cost.cycles) & ETD_NPU_COUNTER_MASK;
        uint8_t metadata[ETD_NPU_METADATA_SIZE];
        etd_put_u32(metadata, (uint32_t)cost.macs);
        etd_put_u32(metadata + 4, (uint32_t)cost.bytes);
        etd_log_profiling_delegate(tracer, name, id, ETD_NPU_CLOCK, start, end, metadata, sizeof metadata);
        start = end;
    }
}

static const char *execute(void *handle, const etd_call *call, const etd_delegate_run *run) {
    etd_tracer *tracer = run->tracer;
    etd_npu_job *job = handle;
    const char *problem = etd_npu_check_arguments(job, call);
    if (problem != NULL) {
        return problem;
    }
    job->scratch = job->scratch_size > 0 ? etd_delegate_take_temporary(run, job->scratch_size) : NULL;
    if (job->scratch == NULL && job->scratch_size > 0) {
        return "out of temporary memory";
    }
    const uint32_t submitted = etd_read_ticks(tracer);
    for (uint32_t i = 0; i < job->command_count; i++) {
        const etd_npu_command command = etd_npu_command_at(job, i);
        etd_npu_compute(job, &command, call);
    }
    /* The simulation may be faster than the simulated hardware, which is visible only in a trace. */
    if (tracer != NULL && !etd_npu_wait(tracer, submitted, job->cycles)) {
        return "the clock does not advance";
    }
    log_commands(job, tracer, etd_npu_counter(submitted));
    return NULL;
}

const etd_delegate etd_simulated_npu = {.name = "SimulatedNpu", .init = init, .execute = execute};
