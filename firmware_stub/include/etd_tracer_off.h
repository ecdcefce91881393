// SPDX-License-Identifier: Apache-2.0
/* Part of etd_tracer.h where ETD_OFF is defined. Generated from that header by schema/generate.py. */
#ifndef ETD_TRACER_OFF_H
#define ETD_TRACER_OFF_H

#include "etd_tracer.h"

static inline void etd_tracer_init_off(etd_tracer *tracer, void *buffer, uint32_t size, etd_ticks_fn ticks,
                                       void *context) {
    (void)tracer;
    (void)buffer;
    (void)size;
    (void)ticks;
    (void)context;
}
#define etd_tracer_init etd_tracer_init_off

static inline void etd_set_tracer_number_off(etd_tracer *tracer, uint16_t number) {
    (void)tracer;
    (void)number;
}
#define etd_set_tracer_number etd_set_tracer_number_off

static inline void etd_set_stack_used_off(etd_tracer *tracer, uint32_t used, uint32_t size) {
    (void)tracer;
    (void)used;
    (void)size;
}
#define etd_set_stack_used etd_set_stack_used_off

static inline uint32_t etd_read_ticks_off(const etd_tracer *tracer) {
    (void)tracer;
    return 0;
}
#define etd_read_ticks etd_read_ticks_off

static inline etd_name etd_intern_off(etd_tracer *tracer, const char *name) {
    (void)tracer;
    (void)name;
    return 0;
}
#define etd_intern etd_intern_off

static inline void etd_create_event_block_off(etd_tracer *tracer, const char *name) {
    (void)tracer;
    (void)name;
}
#define etd_create_event_block etd_create_event_block_off

static inline void etd_set_when_full_off(etd_tracer *tracer, etd_when_full when_full) {
    (void)tracer;
    (void)when_full;
}
#define etd_set_when_full etd_set_when_full_off

static inline void etd_set_bundled_input_index_off(etd_tracer *tracer, int32_t index) {
    (void)tracer;
    (void)index;
}
#define etd_set_bundled_input_index etd_set_bundled_input_index_off

static inline void etd_set_chain_debug_handle_off(etd_tracer *tracer, int32_t chain, uint32_t handle) {
    (void)tracer;
    (void)chain;
    (void)handle;
}
#define etd_set_chain_debug_handle etd_set_chain_debug_handle_off

static inline void etd_set_profiling_level_off(etd_tracer *tracer, etd_profiling_level level) {
    (void)tracer;
    (void)level;
}
#define etd_set_profiling_level etd_set_profiling_level_off

static inline void etd_set_event_filter_off(etd_tracer *tracer, const etd_event_filter *filter) {
    (void)tracer;
    (void)filter;
}
#define etd_set_event_filter etd_set_event_filter_off

static inline void etd_set_paused_off(etd_tracer *tracer, bool paused) {
    (void)tracer;
    (void)paused;
}
#define etd_set_paused etd_set_paused_off

static inline etd_event etd_start_profiling_off(etd_tracer *tracer, const char *name, int32_t chain,
                                                uint32_t handle) {
    (void)tracer;
    (void)name;
    (void)chain;
    (void)handle;
    static etd_event none;
    return none;
}
#define etd_start_profiling etd_start_profiling_off

static inline etd_event etd_start_profiling_interned_off(etd_tracer *tracer, etd_name name, int32_t chain,
                                                         uint32_t handle) {
    (void)tracer;
    (void)name;
    (void)chain;
    (void)handle;
    static etd_event none;
    return none;
}
#define etd_start_profiling_interned etd_start_profiling_interned_off

static inline etd_event etd_start_profiling_fixed_off(etd_tracer *tracer, const char *name, int32_t chain,
                                                      uint32_t handle) {
    (void)tracer;
    (void)name;
    (void)chain;
    (void)handle;
    static etd_event none;
    return none;
}
#define etd_start_profiling_fixed etd_start_profiling_fixed_off

static inline void etd_end_profiling_off(etd_tracer *tracer, etd_event event) {
    (void)tracer;
    (void)event;
}
#define etd_end_profiling etd_end_profiling_off

static inline etd_delegate_event etd_start_profiling_delegate_off(etd_tracer *tracer, const char *name,
                                                                  int32_t id) {
    (void)tracer;
    (void)name;
    (void)id;
    static etd_delegate_event none;
    return none;
}
#define etd_start_profiling_delegate etd_start_profiling_delegate_off

static inline void etd_end_profiling_delegate_off(etd_tracer *tracer, etd_delegate_event event,
                                                  const void *metadata, uint32_t length) {
    (void)tracer;
    (void)event;
    (void)metadata;
    (void)length;
}
#define etd_end_profiling_delegate etd_end_profiling_delegate_off

static inline void etd_log_profiling_delegate_off(etd_tracer *tracer, const char *name, int32_t id,
                                                  uint8_t clock, uint32_t start, uint32_t end,
                                                  const void *metadata, uint32_t length) {
    (void)tracer;
    (void)name;
    (void)id;
    (void)clock;
    (void)start;
    (void)end;
    (void)metadata;
    (void)length;
}
#define etd_log_profiling_delegate etd_log_profiling_delegate_off

static inline uint32_t etd_track_allocator_off(etd_tracer *tracer, const char *name) {
    (void)tracer;
    (void)name;
    return 0;
}
#define etd_track_allocator etd_track_allocator_off

static inline void etd_track_allocation_off(etd_tracer *tracer, uint32_t allocator, uint32_t size,
                                            uint32_t offset) {
    (void)tracer;
    (void)allocator;
    (void)size;
    (void)offset;
}
#define etd_track_allocation etd_track_allocation_off

static inline void etd_track_free_off(etd_tracer *tracer, uint32_t allocator, uint32_t size,
                                      uint32_t offset) {
    (void)tracer;
    (void)allocator;
    (void)size;
    (void)offset;
}
#define etd_track_free etd_track_free_off

static inline void etd_track_allocation_failure_off(etd_tracer *tracer, uint32_t allocator, uint32_t size) {
    (void)tracer;
    (void)allocator;
    (void)size;
}
#define etd_track_allocation_failure etd_track_allocation_failure_off

static inline void etd_set_debug_buffer_off(etd_tracer *tracer, void *buffer, uint32_t size) {
    (void)tracer;
    (void)buffer;
    (void)size;
}
#define etd_set_debug_buffer etd_set_debug_buffer_off

static inline void etd_set_data_sink_off(etd_tracer *tracer, etd_sink_fn sink, void *context) {
    (void)tracer;
    (void)sink;
    (void)context;
}
#define etd_set_data_sink etd_set_data_sink_off

static inline uint32_t etd_debug_size_off(const etd_tracer *tracer) {
    (void)tracer;
    return 0;
}
#define etd_debug_size etd_debug_size_off

static inline void etd_set_debug_level_off(etd_tracer *tracer, etd_debug_level level) {
    (void)tracer;
    (void)level;
}
#define etd_set_debug_level etd_set_debug_level_off

static inline bool etd_logs_values_off(const etd_tracer *tracer, etd_value_role role) {
    (void)tracer;
    (void)role;
    return false;
}
#define etd_logs_values etd_logs_values_off

static inline bool etd_log_evalue_off(etd_tracer *tracer, etd_value_role role,
                                      const etd_logged_value *value) {
    (void)tracer;
    (void)role;
    (void)value;
    return false;
}
#define etd_log_evalue etd_log_evalue_off

static inline bool etd_log_intermediate_output_delegate_off(etd_tracer *tracer, const char *name, int32_t id,
                                                            const etd_logged_value *value) {
    (void)tracer;
    (void)name;
    (void)id;
    (void)value;
    return false;
}
#define etd_log_intermediate_output_delegate etd_log_intermediate_output_delegate_off

static inline void etd_log_recycle_off(etd_tracer *tracer) {
    (void)tracer;
}
#define etd_log_recycle etd_log_recycle_off

static inline bool etd_log_half_full_off(const etd_tracer *tracer) {
    (void)tracer;
    return false;
}
#define etd_log_half_full etd_log_half_full_off

static inline uint32_t etd_log_size_off(const etd_tracer *tracer) {
    (void)tracer;
    return 0;
}
#define etd_log_size etd_log_size_off

static inline uint32_t etd_log_read_off(const etd_tracer *tracer, uint32_t offset, void *out,
                                        uint32_t length) {
    (void)tracer;
    (void)offset;
    (void)out;
    (void)length;
    return 0;
}
#define etd_log_read etd_log_read_off

#endif
