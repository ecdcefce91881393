/* Values that instructions computed: what they are in the log, the bytes of tensors in the debug buffer. */
#include "internal.h"

void et_set_debug_level(et_tracer *tracer, et_debug_level level) {
    if (tracer != NULL) {
        tracer->debug_level = (uint8_t)level;
    }
}

void et_set_debug_buffer(et_tracer *tracer, void *buffer, uint32_t size) {
    if (tracer != NULL) {
        tracer->debug = buffer;
        tracer->debug_capacity = buffer != NULL ? size : 0u;
        tracer->debug_used = 0;
    }
}

uint32_t et_debug_size(const et_tracer *tracer) {
    return tracer != NULL ? tracer->debug_used : 0u;
}

bool et_logs_values(const et_tracer *tracer, et_value_role role) {
    return tracer != NULL && tracer->debug_level > ET_DEBUG_NO_LOGGING &&
           (role == ET_PROGRAM_OUTPUT || tracer->debug_level >= ET_DEBUG_INTERMEDIATE_OUTPUTS);
}

static bool is_list(const et_logged_value *value) {
    return value->kind == ET_LOG_VALUE_TENSOR_LIST;
}

static uint32_t tensor_count(const et_logged_value *value) {
    return is_list(value) ? value->as.list.count : (uint32_t)(value->kind == ET_LOG_VALUE_TENSOR);
}

/* The tensor itself, or one that is described in *room. */
static const et_logged_tensor *tensor_of(const et_logged_value *value, uint32_t index,
                                         et_logged_tensor *room) {
    if (!is_list(value)) {
        return &value->as.tensor;
    }
    value->as.list.tensor_at(value->as.list.context, index, room);
    return room;
}

/* Records behind the VALUE record; anything above UINT16_MAX stands for too many. */
static uint32_t content_size(const et_logged_value *value) {
    if (value->kind == ET_LOG_VALUE_NONE) {
        return 0;
    }
    uint32_t count = tensor_count(value);
    if (count == 0) {
        return is_list(value) ? 0u : 1u;
    }
    et_logged_tensor room;
    uint32_t size = 0;
    for (uint32_t i = 0; i < count && size <= UINT16_MAX; i++) {
        size += et_tensor_records(tensor_of(value, i, &room)->ndim);
    }
    return size;
}

/* Keeps a tensor's bytes; returns where, or ET_LOG_NO_OFFSET when there are none, or no room. */
static uint32_t store(et_tracer *tracer, const et_logged_tensor *tensor) {
    uint32_t mask = ET_LOG_PAYLOAD_ALIGNMENT - 1u;
    uint32_t offset = (tracer->debug_used + mask) & ~mask;
    if (tensor->data == NULL || tensor->nbytes == 0 || offset > tracer->debug_capacity ||
        tensor->nbytes > tracer->debug_capacity - offset) {
        return ET_LOG_NO_OFFSET;
    }
    memset(tracer->debug + tracer->debug_used, 0, offset - tracer->debug_used);
    memcpy(tracer->debug + offset, tensor->data, tensor->nbytes);
    tracer->debug_used = offset + tensor->nbytes;
    return offset;
}

/* Returns the place behind the tensor's records; *lost when its bytes are not kept. */
static uint8_t *put_tensor(et_tracer *tracer, uint8_t *at, const et_logged_tensor *tensor, bool *lost) {
    uint32_t offset = store(tracer, tensor);
    uint32_t size = 4u * tensor->ndim;
    uint8_t *end = at + et_tensor_records(tensor->ndim) * ET_LOG_RECORD_SIZE;
    *lost = *lost || (tensor->nbytes > 0 && offset == ET_LOG_NO_OFFSET);
    et_put_record(at, et_head(tensor->dtype, tensor->ndim, 0), offset, tensor->nbytes, 0);
    at += ET_LOG_RECORD_SIZE;
    if (size > 0) {
        memcpy(at, tensor->sizes, size);
        memcpy(at + size, tensor->strides, size);
        memset(at + 2u * size, 0, (uint32_t)(end - at) - 2u * size);
    }
    return end;
}

static void put_content(et_tracer *tracer, uint8_t *at, uint32_t size, const et_logged_value *value) {
    bool lost = false;
    uint32_t count = tensor_count(value);
    for (uint32_t i = 0; i < count; i++) {
        et_logged_tensor room;
        at = put_tensor(tracer, at, tensor_of(value, i, &room), &lost);
    }
    tracer->dropped_values += lost;
    if (count == 0 && size > 0) { /* a number */
        et_put_record(at, 0, 0, 0, 0);
        memcpy(at, &value->as, value->kind == ET_LOG_VALUE_BOOL ? sizeof(bool) : sizeof(int64_t));
    }
}

static bool log_value(et_tracer *tracer, const et_logged_value *value, uint32_t flags,
                      const et_delegate_prefix *delegate) {
    uint32_t start = tracer->ticks();
    uint32_t size = content_size(value);
    et_context context = {tracer->chain, tracer->handle, delegate};
    uint8_t *at = size <= UINT16_MAX ? et_append_event(tracer, &context, 1u + size) : NULL;
    if (at == NULL) {
        tracer->dropped_values++;
        return false;
    }
    put_content(tracer, at + ET_LOG_RECORD_SIZE, size, value);
    et_put_record(at, et_head(ET_LOG_RECORD_VALUE, value->kind | flags, size),
                  context.handle | (uint32_t)context.chain << 16, start, tracer->ticks());
    return true;
}

bool et_log_evalue(et_tracer *tracer, et_value_role role, const et_logged_value *value) {
    uint32_t flags = role == ET_PROGRAM_OUTPUT ? ET_LOG_VALUE_IS_OUTPUT : 0u;
    return et_logs_values(tracer, role) && log_value(tracer, value, flags, NULL);
}

bool et_log_intermediate_output_delegate(et_tracer *tracer, const char *name, int32_t id,
                                         const et_logged_value *value) {
    if (!et_logs_values(tracer, ET_INTERMEDIATE_OUTPUT)) {
        return false;
    }
    et_delegate_prefix delegate = {et_intern(tracer, name), id, NULL, 0};
    if (!et_passes_filter(tracer, delegate.name, name, id)) {
        tracer->filtered_events++;
        return false;
    }
    return log_value(tracer, value, 0, &delegate);
}
