// SPDX-License-Identifier: Apache-2.0
/* Blocks and timed scopes. */
#include "tracer_internal.h"

#define BLOCK_INDEX_AT 8u /* offset of the bundled input index in a BLOCK record */

/* Debug probes go by these offsets (schema/compact_log.toml), where pointers have 32 bits. */
#define ETD_FIELD_IS_AT(field, offset)                                                                       \
    _Static_assert(sizeof(void *) != 4u || offsetof(etd_tracer, field) == (offset),                          \
                   "a field of etd_tracer is not where debug probes look for it")
ETD_FIELD_IS_AT(buffer, ETD_LOG_TRACER_FIELD_BUFFER);
ETD_FIELD_IS_AT(capacity, ETD_LOG_TRACER_FIELD_CAPACITY);
ETD_FIELD_IS_AT(debug, ETD_LOG_TRACER_FIELD_DEBUG);
ETD_FIELD_IS_AT(debug_capacity, ETD_LOG_TRACER_FIELD_DEBUG_CAPACITY);
ETD_FIELD_IS_AT(record_count, ETD_LOG_TRACER_FIELD_RECORD_COUNT);
ETD_FIELD_IS_AT(name_count, ETD_LOG_TRACER_FIELD_NAME_COUNT);
ETD_FIELD_IS_AT(number, ETD_LOG_TRACER_FIELD_NUMBER);
ETD_FIELD_IS_AT(names_size, ETD_LOG_TRACER_FIELD_NAMES_SIZE);
ETD_FIELD_IS_AT(dropped_events, ETD_LOG_TRACER_FIELD_DROPPED_EVENTS);
ETD_FIELD_IS_AT(dropped_blocks, ETD_LOG_TRACER_FIELD_DROPPED_BLOCKS);
ETD_FIELD_IS_AT(filtered_events, ETD_LOG_TRACER_FIELD_FILTERED_EVENTS);
ETD_FIELD_IS_AT(dropped_values, ETD_LOG_TRACER_FIELD_DROPPED_VALUES);
ETD_FIELD_IS_AT(dropped_runs, ETD_LOG_TRACER_FIELD_DROPPED_RUNS);
ETD_FIELD_IS_AT(chunk, ETD_LOG_TRACER_FIELD_CHUNK);
ETD_FIELD_IS_AT(first_record, ETD_LOG_TRACER_FIELD_FIRST_RECORD);
ETD_FIELD_IS_AT(debug_used, ETD_LOG_TRACER_FIELD_DEBUG_USED);
ETD_FIELD_IS_AT(stack_used, ETD_LOG_TRACER_FIELD_STACK_USED);
ETD_FIELD_IS_AT(stack_size, ETD_LOG_TRACER_FIELD_STACK_SIZE);
ETD_FIELD_IS_AT(full, ETD_LOG_TRACER_FIELD_FULL);
ETD_FIELD_IS_AT(open_count, ETD_LOG_TRACER_FIELD_OPEN_COUNT);

void etd_tracer_init(etd_tracer *tracer, void *buffer, uint32_t size, etd_ticks_fn ticks, void *context) {
    if (tracer == NULL) {
        return;
    }
    *tracer = (etd_tracer){
        .magic = ETD_LOG_TRACER_MAGIC,
        .buffer = buffer,
        .capacity = size,
        .ticks = ticks,
        .ticks_context = context,
        .block_offset = ETD_NO_BLOCK,
        .first_run = ETD_NO_RUN,
        .bundled_input_index = -1,
        .chain = ETD_UNSET_CHAIN,
        .handle = ETD_UNSET_HANDLE,
        .profiling_level = ETD_PROFILE_ALL_EVENTS,
    };
    etd_set_full(tracer, false);
}

void etd_set_tracer_number(etd_tracer *tracer, uint16_t number) {
    if (tracer != NULL) {
        tracer->number = number;
    }
}

void etd_set_stack_used(etd_tracer *tracer, uint32_t used, uint32_t size) {
    if (tracer != NULL) {
        tracer->stack_used = used;
        tracer->stack_size = size;
    }
}

void etd_set_when_full(etd_tracer *tracer, etd_when_full when_full) {
    if (tracer != NULL) {
        tracer->when_full = (uint8_t)when_full;
    }
}

void etd_create_event_block(etd_tracer *tracer, const char *name) {
    if (tracer == NULL) {
        return;
    }
    if (tracer->when_full == ETD_WHEN_FULL_DROP_OLDEST_RUNS) {
        etd_make_room(tracer);
    }
    if (!etd_append_block(tracer, etd_intern(tracer, name))) {
        tracer->dropped_blocks++;
        tracer->block_offset = ETD_LOST_BLOCK; /* the previous block is no longer current */
    }
}

bool etd_append_block(etd_tracer *tracer, etd_name name) {
    uint8_t *at = etd_append(tracer, 1);
    if (at == NULL) {
        return false;
    }
    etd_put_record(at, etd_head(ETD_LOG_RECORD_BLOCK, 0, name), 0, (uint32_t)tracer->bundled_input_index, 0);
    tracer->block_offset = (uint32_t)(at - tracer->buffer);
    return true;
}

void etd_set_bundled_input_index(etd_tracer *tracer, int32_t index) {
    if (tracer == NULL) {
        return;
    }
    tracer->bundled_input_index = index;
    if (tracer->block_offset < ETD_LOST_BLOCK) {
        etd_put_u32(tracer->buffer + tracer->block_offset + BLOCK_INDEX_AT, (uint32_t)index);
    }
}

void etd_set_chain_debug_handle(etd_tracer *tracer, int32_t chain, uint32_t handle) {
    if (tracer != NULL) {
        tracer->chain = chain;
        tracer->handle = handle;
    }
}

uint32_t etd_read_ticks(const etd_tracer *tracer) {
    return tracer != NULL ? etd_now(tracer) : 0;
}

etd_event etd_start_profiling_interned(etd_tracer *tracer, etd_name name, int32_t chain, uint32_t handle) {
    if (tracer == NULL) {
        return (etd_event){0};
    }
    return etd_start_event(tracer, etd_enter_scope(tracer, ETD_UNSET_DELEGATE_ID, chain, handle), name, NULL);
}

etd_event etd_start_profiling(etd_tracer *tracer, const char *name, int32_t chain, uint32_t handle) {
    if (tracer == NULL) {
        return (etd_event){0};
    }
    etd_open_scope *scope = etd_enter_scope(tracer, ETD_UNSET_DELEGATE_ID, chain, handle);
    return etd_start_event(tracer, scope, etd_intern_quickly(tracer, name), name);
}
