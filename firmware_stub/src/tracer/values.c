// SPDX-License-Identifier: Apache-2.0
/* Logged values: descriptions in the log, tensor data in the debug buffer. */
#include "tracer_internal.h"

void etd_set_debug_level(etd_tracer *tracer, etd_debug_level level) {
    if (tracer != NULL) {
        tracer->debug_level = (uint8_t)level;
    }
}

void etd_set_debug_buffer(etd_tracer *tracer, void *buffer, uint32_t size) {
    if (tracer != NULL) {
        tracer->debug = buffer;
        tracer->debug_capacity = buffer != NULL ? size : 0u;
        tracer->debug_used = 0;
    }
}

uint32_t etd_debug_size(const etd_tracer *tracer) {
    return tracer != NULL ? tracer->debug_used : 0u;
}

bool etd_logs_values(const etd_tracer *tracer, etd_value_role role) {
    return tracer != NULL && !etd_is_paused(tracer) && tracer->debug_level > ETD_DEBUG_NO_LOGGING &&
           (role == ETD_PROGRAM_OUTPUT || tracer->debug_level >= ETD_DEBUG_INTERMEDIATE_OUTPUTS);
}

static bool is_list(const etd_logged_value *value) {
    return value->kind == ETD_LOG_VALUE_TENSOR_LIST;
}

static uint32_t tensor_count(const etd_logged_value *value) {
    return is_list(value) ? value->as.list.count : (uint32_t)(value->kind == ETD_LOG_VALUE_TENSOR);
}

/* Returns the tensor at `index`: the value itself, or an element of its list, which is stored in *room. */
static const etd_logged_tensor *tensor_of(const etd_logged_value *value, uint32_t index,
                                          etd_logged_tensor *room) {
    if (!is_list(value)) {
        return &value->as.tensor;
    }
    value->as.list.tensor_at(value->as.list.context, index, room);
    return room;
}

/* Returns the number of records after the VALUE record; above UINT16_MAX means too many. */
static uint32_t content_size(const etd_logged_value *value) {
    if (value->kind == ETD_LOG_VALUE_NONE) {
        return 0;
    }
    uint32_t count = tensor_count(value);
    if (count == 0) {
        return is_list(value) ? 0u : 1u;
    }
    etd_logged_tensor room;
    uint32_t size = 0;
    for (uint32_t i = 0; i < count && size <= UINT16_MAX; i++) {
        size += etd_tensor_records(tensor_of(value, i, &room)->ndim);
    }
    return size;
}

/* Stores a tensor's data. Returns its offset, or ETD_LOG_NO_OFFSET if there is no memory or no room. */
static uint32_t store(etd_tracer *tracer, const etd_logged_tensor *tensor) {
    if (tensor->data == NULL) {
        return ETD_LOG_NO_OFFSET;
    }
    uint32_t offset;
    if (tracer->sink != NULL) {
        offset = tracer->sink(tracer->sink_context, tensor);
        if (offset == ETD_LOG_NO_OFFSET) {
            return offset;
        }
    } else {
        uint32_t mask = ETD_LOG_PAYLOAD_ALIGNMENT - 1u;
        offset = (tracer->debug_used + mask) & ~mask;
        if (offset > tracer->debug_capacity || tensor->nbytes > tracer->debug_capacity - offset) {
            return ETD_LOG_NO_OFFSET;
        }
        memset(tracer->debug + tracer->debug_used, 0, offset - tracer->debug_used);
        memcpy(tracer->debug + offset, tensor->data, tensor->nbytes);
    }
    tracer->debug_used = offset + tensor->nbytes;
    return offset;
}

/* Writes a tensor's records and returns the position after them. Sets *lost if the data were not stored. */
static uint8_t *put_tensor(etd_tracer *tracer, uint8_t *at, const etd_logged_tensor *tensor, bool *lost) {
    uint32_t offset = ETD_LOG_NO_OFFSET;
    if (tensor->nbytes > 0) {
        offset = store(tracer, tensor);
        *lost |= offset == ETD_LOG_NO_OFFSET;
    }
    uint32_t size = 4u * tensor->ndim;
    uint8_t *end = at + etd_tensor_records(tensor->ndim) * ETD_LOG_RECORD_SIZE;
    etd_put_record(at, etd_head(tensor->dtype, tensor->ndim, 0), offset, tensor->nbytes, 0);
    at += ETD_LOG_RECORD_SIZE;
    if (size > 0) {
        memcpy(at, tensor->sizes, size);
        memcpy(at + size, tensor->strides, size);
        memset(at + 2u * size, 0, (uint32_t)(end - at) - 2u * size);
    }
    return end;
}

static void put_content(etd_tracer *tracer, uint8_t *at, uint32_t size, const etd_logged_value *value) {
    bool lost = false;
    uint32_t count = tensor_count(value);
    for (uint32_t i = 0; i < count; i++) {
        etd_logged_tensor room;
        at = put_tensor(tracer, at, tensor_of(value, i, &room), &lost);
    }
    tracer->dropped_values += lost;
    if (count == 0 && size > 0) { /* a number */
        etd_put_record(at, 0, 0, 0, 0);
        memcpy(at, &value->as, value->kind == ETD_LOG_VALUE_BOOL ? sizeof(bool) : sizeof(int64_t));
    }
}

static bool log_value(etd_tracer *tracer, const etd_logged_value *value, uint32_t flags,
                      const etd_delegate_prefix *delegate) {
    uint32_t start = etd_now(tracer);
    uint32_t size = content_size(value);
    etd_context context = {tracer->chain, tracer->handle, delegate};
    uint8_t *at = size <= UINT16_MAX ? etd_append_event(tracer, &context, 1u + size) : NULL;
    if (at == NULL) {
        tracer->dropped_values++;
        return false;
    }
    put_content(tracer, at + ETD_LOG_RECORD_SIZE, size, value);
    etd_put_record(at, etd_head(ETD_LOG_RECORD_VALUE, value->kind | flags, size),
                   context.handle | (uint32_t)context.chain << 16, start, etd_now(tracer));
    return true;
}

bool etd_log_evalue(etd_tracer *tracer, etd_value_role role, const etd_logged_value *value) {
    uint32_t flags = role == ETD_PROGRAM_OUTPUT ? ETD_LOG_VALUE_IS_OUTPUT : 0u;
    return etd_logs_values(tracer, role) && log_value(tracer, value, flags, NULL);
}

bool etd_log_intermediate_output_delegate(etd_tracer *tracer, const char *name, int32_t id,
                                          const etd_logged_value *value) {
    if (!etd_logs_values(tracer, ETD_INTERMEDIATE_OUTPUT)) {
        return false;
    }
    etd_delegate_prefix delegate = {etd_intern(tracer, name), id, NULL, 0};
    if (!etd_passes_filter(tracer, delegate.name, name, id)) {
        tracer->filtered_events++;
        return false;
    }
    return log_value(tracer, value, 0, &delegate);
}
