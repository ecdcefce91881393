// SPDX-License-Identifier: Apache-2.0
#include "etd_postmortem.h"

#include <stddef.h>
#include <string.h>

#include "etd_frame.h"

#define HEAD_CHECKED (ETD_POSTMORTEM_HEAD_SIZE - 4u)
#define LOG_ALIGNMENT 16u /* of a buffer directly after the record */

_Static_assert(offsetof(etd_postmortem, run) == ETD_POSTMORTEM_HEAD_SIZE, "head");
_Static_assert(offsetof(etd_postmortem, fault) == ETD_POSTMORTEM_HEAD_SIZE + ETD_POSTMORTEM_RUN_SIZE, "run");
_Static_assert(offsetof(etd_postmortem, after) - offsetof(etd_postmortem, fault) == ETD_POSTMORTEM_FAULT_SIZE,
               "fault");
_Static_assert(sizeof((etd_postmortem *)0)->after == ETD_POSTMORTEM_AFTER_SIZE, "after");
_Static_assert(sizeof(etd_open_scope) == ETD_POSTMORTEM_SCOPE_SIZE, "scope");
_Static_assert(ETD_TRACER_SCOPES == ETD_POSTMORTEM_SCOPES, "scopes");

static uint32_t head_check(const etd_postmortem *record) {
    return etd_crc32(0, &record->head, HEAD_CHECKED);
}

static uint32_t fault_check(const etd_fault *fault) {
    return etd_crc32(0, fault, sizeof *fault);
}

static bool has_magic(const etd_postmortem *record) {
    return record->head.magic == ETD_POSTMORTEM_MAGIC && record->head.version == ETD_POSTMORTEM_VERSION &&
           record->head.size == sizeof *record && record->head.second_magic == ETD_POSTMORTEM_SECOND_MAGIC;
}

static bool is_kept(const etd_postmortem *record) {
    return record->after.kept == ETD_POSTMORTEM_KEPT;
}

static void seal(etd_postmortem *record) {
    record->head.check = head_check(record);
}

static void copy_build_id(char *to, const char *build_id) {
    memset(to, 0, ETD_POSTMORTEM_BUILD_ID_SIZE);
    for (uint32_t i = 0; i < ETD_POSTMORTEM_BUILD_ID_SIZE && build_id[i] != '\0'; i++) {
        to[i] = build_id[i];
    }
}

void etd_postmortem_clear(etd_postmortem *record, const char *build_id) {
    etd_tracer *tracer = &record->tracer;
    etd_tracer_init(tracer, NULL, 0, NULL, NULL);
    memset(record, 0, offsetof(etd_postmortem, tracer));
    record->head.magic = ETD_POSTMORTEM_MAGIC;
    record->head.version = ETD_POSTMORTEM_VERSION;
    record->head.size = sizeof *record;
    record->head.tracer_offset = offsetof(etd_postmortem, tracer);
    static const uint8_t fields[] = {
        [ETD_POSTMORTEM_FIELD_RECORD_COUNT] = offsetof(etd_tracer, record_count),
        [ETD_POSTMORTEM_FIELD_NAMES_SIZE] = offsetof(etd_tracer, names_size),
        [ETD_POSTMORTEM_FIELD_NAME_COUNT] = offsetof(etd_tracer, name_count),
        [ETD_POSTMORTEM_FIELD_DROPPED_EVENTS] = offsetof(etd_tracer, dropped_events),
        [ETD_POSTMORTEM_FIELD_DROPPED_BLOCKS] = offsetof(etd_tracer, dropped_blocks),
        [ETD_POSTMORTEM_FIELD_FILTERED_EVENTS] = offsetof(etd_tracer, filtered_events),
        [ETD_POSTMORTEM_FIELD_FULL] = offsetof(etd_tracer, full),
        [ETD_POSTMORTEM_FIELD_CHUNK] = offsetof(etd_tracer, chunk),
        [ETD_POSTMORTEM_FIELD_FIRST_RECORD] = offsetof(etd_tracer, first_record),
        [ETD_POSTMORTEM_FIELD_OPEN_COUNT] = offsetof(etd_tracer, open_count),
        [ETD_POSTMORTEM_FIELD_OPEN_SCOPES] = offsetof(etd_tracer, open),
    };
    _Static_assert(sizeof fields == sizeof record->head.fields, "fields");
    memcpy(record->head.fields, fields, sizeof fields);
    record->head.scopes = ETD_POSTMORTEM_SCOPES;
    copy_build_id(record->head.build_id, build_id);
    record->head.second_magic = ETD_POSTMORTEM_SECOND_MAGIC;
    record->run.phase = ETD_POSTMORTEM_PHASE_IDLE;
    record->fault_check = fault_check(&record->fault);
    seal(record);
}

/* Returns true if the tracer's counts describe a log that fits its buffer. */
static bool is_log_valid(const etd_postmortem *record, uint32_t capacity) {
    const etd_tracer *tracer = &record->tracer;
    uint32_t records = tracer->record_count;
    return tracer->capacity <= capacity && records <= tracer->capacity / ETD_LOG_RECORD_SIZE &&
           tracer->names_size <= tracer->capacity - records * ETD_LOG_RECORD_SIZE;
}

static bool matches_build(const etd_postmortem *record, const char *build_id) {
    char expected[ETD_POSTMORTEM_BUILD_ID_SIZE];
    copy_build_id(expected, build_id);
    return memcmp(record->head.build_id, expected, sizeof expected) == 0;
}

static bool shows_crash(const etd_postmortem *record) {
    return is_kept(record) || record->run.phase == ETD_POSTMORTEM_PHASE_RUNNING ||
           record->fault.kind != ETD_POSTMORTEM_FAULT_NONE;
}

static bool is_intact(const etd_postmortem *record, uint32_t capacity) {
    return record->head.check == head_check(record) && record->fault_check == fault_check(&record->fault) &&
           is_log_valid(record, capacity);
}

uint8_t etd_postmortem_open(etd_postmortem *record, const char *build_id, uint8_t *log, uint32_t capacity,
                            uint32_t reason, etd_stack_use stack) {
    bool damaged = record->head.check != head_check(record);
    /* Another build may have its fields at other offsets. */
    if (!has_magic(record) || !(damaged || matches_build(record, build_id)) || !shows_crash(record)) {
        etd_postmortem_clear(record, build_id);
        return ETD_POSTMORTEM_CONDITION_NONE;
    }
    if (!is_kept(record)) {
        record->after.kept = ETD_POSTMORTEM_KEPT;
        record->after.resets = 0;
        record->after.faults = 0;
        record->after.reason = reason;
        /* The stack is painted when a run begins. */
        bool painted = record->run.phase != ETD_POSTMORTEM_PHASE_IDLE;
        record->after.stack_used = painted ? stack.used : 0u;
        record->after.stack_size = painted ? stack.size : 0u;
    }
    record->after.resets++;
    record->tracer.buffer = log;
    return is_intact(record, capacity) ? ETD_POSTMORTEM_CONDITION_WHOLE : ETD_POSTMORTEM_CONDITION_DAMAGED;
}

void etd_postmortem_begin_run(etd_postmortem *record, uint32_t run_id, uint32_t count) {
    uintptr_t log = (uintptr_t)record->tracer.buffer;
    uintptr_t here = (uintptr_t)record;
    record->head.run_id = run_id;
    record->head.count = count;
    record->head.log_capacity = record->tracer.capacity;
    record->head.log_offset =
        log > here && log - here < sizeof *record + LOG_ALIGNMENT ? (uint32_t)(log - here) : 0u;
    record->run.completed = 0;
    record->run.phase = ETD_POSTMORTEM_PHASE_RUNNING;
    seal(record);
}

void etd_postmortem_end_run(etd_postmortem *record) {
    record->run.phase = ETD_POSTMORTEM_PHASE_ENDED;
}

void etd_postmortem_fault(etd_postmortem *record, const etd_fault *fault) {
    if (!has_magic(record)) {
        return;
    }
    if (is_kept(record)) {
        record->after.faults++;
        return;
    }
    record->fault = *fault;
    record->fault_check = fault_check(fault);
}

const etd_tracer *etd_postmortem_tracer(const etd_postmortem *record, uint32_t capacity) {
    return is_log_valid(record, capacity) ? &record->tracer : NULL;
}
