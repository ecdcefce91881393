// SPDX-License-Identifier: Apache-2.0
/* Postmortem record: the run in progress, the tracer with its log, and the fault, kept across a reset.
 *
 * The record lies in memory that start-up code does not clear, next to the tracer's buffer. Its head does not
 * change during a run. It holds two magic numbers, the build id and a CRC, so random memory after power-on is
 * not mistaken for a record. Everything else is as the crash left it and is checked before use.
 *
 * etd_postmortem_fault is for fault handlers and may interrupt every other function. The others belong to one
 * task.
 *
 * A record found after a reset stays until the next run begins or until it is cleared. Later faults are
 * counted but do not change it. The format is described in schema/postmortem.toml. */
#ifndef ETD_POSTMORTEM_H
#define ETD_POSTMORTEM_H

#include "etd_postmortem_format.h"
#include "etd_tracer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A fault, filled in by a fault handler. */
typedef struct {
    uint32_t kind;   /* ETD_POSTMORTEM_FAULT_* */
    uint32_t number; /* number of the exception, trap or signal */
    uint32_t known;  /* bit n is set if registers[n] is valid */
    uint32_t registers[ETD_POSTMORTEM_REGISTERS];
} etd_fault;

/* The record. Fields are private. The layout follows schema/postmortem.toml, without padding before the
 * tracer. */
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

/* Stack use in bytes: the high-water mark and the size of the stack; 0 if unknown. */
typedef struct {
    uint32_t used;
    uint32_t size;
} etd_stack_use;

/* Examines the record after a reset. Call it before anything else writes to the record or the log. Keeps the
 * record if it shows a fault or a run that did not end; otherwise starts a new one.
 *
 * `log` and `capacity` (bytes) are the tracer's buffer. `reason` (ETD_POSTMORTEM_REASON_*) and `stack` are
 * stored in a record that is found by this call. Returns ETD_POSTMORTEM_CONDITION_*. */
uint8_t etd_postmortem_open(etd_postmortem *record, const char *build_id, uint8_t *log, uint32_t capacity,
                            uint32_t reason, etd_stack_use stack);

/* Discards the record and starts a new one in phase IDLE. */
void etd_postmortem_clear(etd_postmortem *record, const char *build_id);

/* Marks the start of a run of `count` executions. The record's tracer must be initialized with an empty
 * log. */
void etd_postmortem_begin_run(etd_postmortem *record, uint32_t run_id, uint32_t count);

/* Marks the end of the run. */
void etd_postmortem_end_run(etd_postmortem *record);

/* Stores a fault for use after the reset. Call it from a fault handler; it may run on any stack. */
void etd_postmortem_fault(etd_postmortem *record, const etd_fault *fault);

/* Returns the tracer of a kept record, or NULL if its contents are invalid. `capacity` is the size of the log
 * buffer in bytes. The tracer is part of `record`. */
const etd_tracer *etd_postmortem_tracer(const etd_postmortem *record, uint32_t capacity);

#ifdef __cplusplus
}
#endif

#endif
