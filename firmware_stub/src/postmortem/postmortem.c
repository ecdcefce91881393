#include "et_postmortem.h"

#include <stddef.h>
#include <string.h>

#include "et_frame.h"

#define HEAD_CHECKED (ET_POSTMORTEM_HEAD_SIZE - 4u)
#define LOG_ALIGNMENT 16u /* of a buffer right behind the record */

_Static_assert(offsetof(et_postmortem, run) == ET_POSTMORTEM_HEAD_SIZE, "head");
_Static_assert(offsetof(et_postmortem, fault) == ET_POSTMORTEM_HEAD_SIZE + ET_POSTMORTEM_RUN_SIZE, "run");
_Static_assert(offsetof(et_postmortem, after) - offsetof(et_postmortem, fault) == ET_POSTMORTEM_FAULT_SIZE,
               "fault");
_Static_assert(sizeof((et_postmortem *)0)->after == ET_POSTMORTEM_AFTER_SIZE, "after");
_Static_assert(sizeof(et_open_scope) == ET_POSTMORTEM_SCOPE_SIZE, "scope");
_Static_assert(ET_TRACER_SCOPES == ET_POSTMORTEM_SCOPES, "scopes");

static uint32_t head_check(const et_postmortem *record) {
    return et_crc32(0, &record->head, HEAD_CHECKED);
}

static uint32_t fault_check(const et_fault *fault) {
    return et_crc32(0, fault, sizeof *fault);
}

static bool has_magic(const et_postmortem *record) {
    return record->head.magic == ET_POSTMORTEM_MAGIC && record->head.version == ET_POSTMORTEM_VERSION &&
           record->head.size == sizeof *record && record->head.second_magic == ET_POSTMORTEM_SECOND_MAGIC;
}

static bool is_kept(const et_postmortem *record) {
    return record->after.kept == ET_POSTMORTEM_KEPT;
}

static void seal(et_postmortem *record) {
    record->head.check = head_check(record);
}

static void copy_build_id(char *to, const char *build_id) {
    memset(to, 0, ET_POSTMORTEM_BUILD_ID_SIZE);
    for (uint32_t i = 0; i < ET_POSTMORTEM_BUILD_ID_SIZE && build_id[i] != '\0'; i++) {
        to[i] = build_id[i];
    }
}

void et_postmortem_clear(et_postmortem *record, const char *build_id) {
    et_tracer *tracer = &record->tracer;
    et_tracer_init(tracer, NULL, 0, NULL);
    memset(record, 0, offsetof(et_postmortem, tracer));
    record->head.magic = ET_POSTMORTEM_MAGIC;
    record->head.version = ET_POSTMORTEM_VERSION;
    record->head.size = sizeof *record;
    record->head.tracer_offset = offsetof(et_postmortem, tracer);
    static const uint8_t fields[] = {
        [ET_POSTMORTEM_FIELD_RECORD_COUNT] = offsetof(et_tracer, record_count),
        [ET_POSTMORTEM_FIELD_NAMES_SIZE] = offsetof(et_tracer, names_size),
        [ET_POSTMORTEM_FIELD_NAME_COUNT] = offsetof(et_tracer, name_count),
        [ET_POSTMORTEM_FIELD_DROPPED_EVENTS] = offsetof(et_tracer, dropped_events),
        [ET_POSTMORTEM_FIELD_DROPPED_BLOCKS] = offsetof(et_tracer, dropped_blocks),
        [ET_POSTMORTEM_FIELD_FILTERED_EVENTS] = offsetof(et_tracer, filtered_events),
        [ET_POSTMORTEM_FIELD_FULL] = offsetof(et_tracer, full),
        [ET_POSTMORTEM_FIELD_CHUNK] = offsetof(et_tracer, chunk),
        [ET_POSTMORTEM_FIELD_FIRST_RECORD] = offsetof(et_tracer, first_record),
        [ET_POSTMORTEM_FIELD_OPEN_COUNT] = offsetof(et_tracer, open_count),
        [ET_POSTMORTEM_FIELD_OPEN_SCOPES] = offsetof(et_tracer, open),
    };
    _Static_assert(sizeof fields == sizeof record->head.fields, "fields");
    memcpy(record->head.fields, fields, sizeof fields);
    record->head.scopes = ET_POSTMORTEM_SCOPES;
    copy_build_id(record->head.build_id, build_id);
    record->head.second_magic = ET_POSTMORTEM_SECOND_MAGIC;
    record->run.phase = ET_POSTMORTEM_PHASE_IDLE;
    record->fault_check = fault_check(&record->fault);
    seal(record);
}

/* Whether the tracer's counts describe a log within its buffer. */
static bool is_log_sound(const et_postmortem *record, uint32_t capacity) {
    const et_tracer *tracer = &record->tracer;
    uint32_t records = tracer->record_count;
    return tracer->capacity <= capacity && records <= tracer->capacity / ET_LOG_RECORD_SIZE &&
           tracer->names_size <= tracer->capacity - records * ET_LOG_RECORD_SIZE;
}

static bool is_of_build(const et_postmortem *record, const char *build_id) {
    char expected[ET_POSTMORTEM_BUILD_ID_SIZE];
    copy_build_id(expected, build_id);
    return memcmp(record->head.build_id, expected, sizeof expected) == 0;
}

static bool has_something_to_tell(const et_postmortem *record) {
    return is_kept(record) || record->run.phase == ET_POSTMORTEM_PHASE_RUNNING ||
           record->fault.kind != ET_POSTMORTEM_FAULT_NONE;
}

static bool is_whole(const et_postmortem *record, uint32_t capacity) {
    return record->head.check == head_check(record) && record->fault_check == fault_check(&record->fault) &&
           is_log_sound(record, capacity);
}

uint8_t et_postmortem_open(et_postmortem *record, const char *build_id, uint8_t *log, uint32_t capacity,
                           uint32_t reason, et_stack_use stack) {
    bool damaged = record->head.check != head_check(record);
    /* Another build has its fields elsewhere. */
    if (!has_magic(record) || !(damaged || is_of_build(record, build_id)) || !has_something_to_tell(record)) {
        et_postmortem_clear(record, build_id);
        return ET_POSTMORTEM_CONDITION_NONE;
    }
    if (!is_kept(record)) {
        record->after.kept = ET_POSTMORTEM_KEPT;
        record->after.resets = 0;
        record->after.faults = 0;
        record->after.reason = reason;
        /* It is painted when a run begins. */
        bool painted = record->run.phase != ET_POSTMORTEM_PHASE_IDLE;
        record->after.stack_used = painted ? stack.used : 0u;
        record->after.stack_size = painted ? stack.size : 0u;
    }
    record->after.resets++;
    record->tracer.buffer = log;
    return is_whole(record, capacity) ? ET_POSTMORTEM_CONDITION_WHOLE : ET_POSTMORTEM_CONDITION_DAMAGED;
}

void et_postmortem_begin_run(et_postmortem *record, uint32_t run_id, uint32_t count) {
    uintptr_t log = (uintptr_t)record->tracer.buffer;
    uintptr_t here = (uintptr_t)record;
    record->head.run_id = run_id;
    record->head.count = count;
    record->head.log_capacity = record->tracer.capacity;
    record->head.log_offset =
        log > here && log - here < sizeof *record + LOG_ALIGNMENT ? (uint32_t)(log - here) : 0u;
    record->run.completed = 0;
    record->run.phase = ET_POSTMORTEM_PHASE_RUNNING;
    seal(record);
}

void et_postmortem_end_run(et_postmortem *record) {
    record->run.phase = ET_POSTMORTEM_PHASE_ENDED;
}

void et_postmortem_fault(et_postmortem *record, const et_fault *fault) {
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

const et_tracer *et_postmortem_tracer(const et_postmortem *record, uint32_t capacity) {
    return is_log_sound(record, capacity) ? &record->tracer : NULL;
}
