// SPDX-License-Identifier: Apache-2.0
/* What survives a reset: which run was under way, the tracer with its log, and the fault if there was one.
 *
 * The record stands in memory that start-up leaves alone, next to the tracer's buffer. Memory after
 * power-on is never taken for a record: its head, which is constant during a run, has two magic numbers,
 * the build id and a check. Everything else is as the crash left it, and believed only as far as it makes
 * sense. A record that a reset has found is kept until the next run begins or somebody clears it; faults
 * meanwhile are counted and do not change it. Format: schema/postmortem.toml. */
#ifndef ETD_POSTMORTEM_H
#define ETD_POSTMORTEM_H

#include "etd_postmortem_format.h"
#include "etd_tracer.h"

/* A fault as its handler finds it. */
typedef struct {
    uint32_t kind;   /* ETD_POSTMORTEM_FAULT_* */
    uint32_t number; /* of the exception, trap or signal */
    uint32_t known;  /* bit n: registers[n] has been read */
    uint32_t registers[ETD_POSTMORTEM_REGISTERS];
} etd_fault;

/* The record. Its members are private, and as the format says, without padding before the tracer. */
typedef struct {
    struct {
        uint32_t magic;
        uint16_t version;
        uint16_t size;
        char build_id[ETD_POSTMORTEM_BUILD_ID_SIZE];
        uint32_t run_id;
        uint32_t count;
        uint32_t log_capacity;
        uint32_t log_offset;
        uint16_t tracer_offset;
        uint8_t fields[11];
        uint8_t scopes;
        uint16_t zero;
        uint32_t second_magic;
        uint32_t check;
    } head;
    struct {
        uint32_t phase;
        uint32_t completed;
    } run;
    etd_fault fault;
    uint32_t fault_check;
    struct {
        uint32_t kept;
        uint32_t resets;
        uint32_t faults;
        uint32_t reason;
        uint32_t stack_used;
        uint32_t stack_size;
    } after;
    etd_tracer tracer;
} etd_postmortem;

/* What of the stack has been used, and how large it is; both 0 when unknown. */
typedef struct {
    uint32_t used;
    uint32_t size;
} etd_stack_use;

/* After a reset, first of all: looks at what the memory holds, and keeps it when there is something to tell,
 * that is a fault or a run that did not end. `log` and `capacity` are the tracer's buffer. `reason` and
 * `stack` go into a record that is found now. Returns ETD_POSTMORTEM_CONDITION_*. */
uint8_t etd_postmortem_open(etd_postmortem *record, const char *build_id, uint8_t *log, uint32_t capacity,
                            uint32_t reason, etd_stack_use stack);

/* Forgets what was kept; a fault from now on is of a device that is not running. */
void etd_postmortem_clear(etd_postmortem *record, const char *build_id);

/* A run begins, with an empty log in its tracer. */
void etd_postmortem_begin_run(etd_postmortem *record, uint32_t run_id, uint32_t count);

/* It ended. */
void etd_postmortem_end_run(etd_postmortem *record);

/* From a fault handler, on whatever stack: keeps the fault for after the reset. */
void etd_postmortem_fault(etd_postmortem *record, const etd_fault *fault);

/* The tracer whose log belongs to a record that is kept; NULL when it makes no sense. */
const etd_tracer *etd_postmortem_tracer(const etd_postmortem *record, uint32_t capacity);

#endif
