/* Blocks and timed scopes. */
#include "internal.h"

#define BLOCK_INDEX_AT 8u /* of the bundled input index in a BLOCK record */

void et_tracer_init(et_tracer *tracer, void *buffer, uint32_t size, et_ticks_fn ticks) {
    if (tracer == NULL) {
        return;
    }
    *tracer = (et_tracer){
        .buffer = buffer,
        .capacity = size,
        .ticks = ticks,
        .block_offset = ET_NO_BLOCK,
        .first_run = ET_NO_RUN,
        .bundled_input_index = -1,
        .chain = ET_UNSET_CHAIN,
        .handle = ET_UNSET_HANDLE,
        .profiling_level = ET_PROFILE_ALL_EVENTS,
    };
    et_set_full(tracer, false);
}

void et_set_tracer_number(et_tracer *tracer, uint16_t number) {
    if (tracer != NULL) {
        tracer->number = number;
    }
}

void et_set_stack_used(et_tracer *tracer, uint32_t used, uint32_t size) {
    if (tracer != NULL) {
        tracer->stack_used = used;
        tracer->stack_size = size;
    }
}

void et_set_when_full(et_tracer *tracer, et_when_full when_full) {
    if (tracer != NULL) {
        tracer->when_full = (uint8_t)when_full;
    }
}

void et_create_event_block(et_tracer *tracer, const char *name) {
    if (tracer == NULL) {
        return;
    }
    if (tracer->when_full == ET_WHEN_FULL_DROP_OLDEST_RUNS) {
        et_make_room(tracer);
    }
    if (!et_append_block(tracer, et_intern(tracer, name))) {
        tracer->dropped_blocks++;
        tracer->block_offset = ET_LOST_BLOCK; /* the block before is no longer the current one */
    }
}

bool et_append_block(et_tracer *tracer, et_name name) {
    uint8_t *at = et_append(tracer, 1);
    if (at == NULL) {
        return false;
    }
    et_put_record(at, et_head(ET_LOG_RECORD_BLOCK, 0, name), 0, (uint32_t)tracer->bundled_input_index, 0);
    tracer->block_offset = (uint32_t)(at - tracer->buffer);
    return true;
}

void et_set_bundled_input_index(et_tracer *tracer, int32_t index) {
    if (tracer == NULL) {
        return;
    }
    tracer->bundled_input_index = index;
    if (tracer->block_offset < ET_LOST_BLOCK) {
        et_put_u32(tracer->buffer + tracer->block_offset + BLOCK_INDEX_AT, (uint32_t)index);
    }
}

void et_set_chain_debug_handle(et_tracer *tracer, int32_t chain, uint32_t handle) {
    if (tracer != NULL) {
        tracer->chain = chain;
        tracer->handle = handle;
    }
}

uint32_t et_read_ticks(const et_tracer *tracer) {
    return tracer != NULL ? tracer->ticks() : 0;
}

et_event et_start_profiling_interned(et_tracer *tracer, et_name name, int32_t chain, uint32_t handle) {
    if (tracer == NULL) {
        return (et_event){0};
    }
    return et_start_event(tracer, et_enter_scope(tracer, ET_UNSET_DELEGATE_ID, chain, handle), name, NULL);
}

et_event et_start_profiling(et_tracer *tracer, const char *name, int32_t chain, uint32_t handle) {
    if (tracer == NULL) {
        return (et_event){0};
    }
    et_open_scope *scope = et_enter_scope(tracer, ET_UNSET_DELEGATE_ID, chain, handle);
    return et_start_event(tracer, scope, et_intern_quickly(tracer, name), name);
}
