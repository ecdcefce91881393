// SPDX-License-Identifier: Apache-2.0
/* Profiling level and event filter. */
#include "tracer_internal.h"

void etd_set_event_filter(etd_tracer *tracer, const etd_event_filter *filter) {
    if (tracer != NULL) {
        tracer->filter = filter;
        tracer->selective =
            filter != NULL || tracer->profiling_level != ETD_PROFILE_ALL_EVENTS || tracer->choice != ETD_KEEP;
    }
}

void etd_set_profiling_level(etd_tracer *tracer, etd_profiling_level level) {
    if (tracer != NULL) {
        tracer->profiling_level = (uint8_t)level;
        etd_set_event_filter(tracer, tracer->filter); /* decides again whether to select */
    }
}

static bool matches(const char *pattern, const uint8_t *name, uint32_t length) {
    uint32_t count = (uint32_t)strlen(pattern);
    bool any_end = count > 0 && pattern[count - 1] == '*';
    count -= any_end;
    bool any_start = count > 0 && pattern[0] == '*';
    pattern += any_start;
    count -= any_start;
    if (count > length || (!any_start && !any_end && count < length)) {
        return false;
    }
    uint32_t last = any_start ? length - count : 0;
    for (uint32_t first = any_end ? 0 : last; first <= last; first++) {
        if (memcmp(name + first, pattern, count) == 0) {
            return true;
        }
    }
    return false;
}

static bool keeps_name(const etd_event_filter *filter, const uint8_t *name, uint32_t length) {
    for (uint32_t i = 0; i < filter->pattern_count; i++) {
        if (matches(filter->patterns[i], name, length)) {
            return true;
        }
    }
    return filter->pattern_count == 0;
}

bool etd_passes_filter(const etd_tracer *tracer, etd_name name, const char *text, int32_t id) {
    const etd_event_filter *filter = tracer->filter;
    if (filter == NULL) {
        return true;
    }
    if (id != ETD_UNSET_DELEGATE_ID) {
        return !filter->by_id || (filter->first_id <= id && id <= filter->last_id);
    }
    if (text != NULL) { /* a full log interns no names, but the filter still applies */
        return keeps_name(filter, (const uint8_t *)text, etd_name_length(text));
    }
    if (name >= tracer->name_count) {
        return true;
    }
    const uint8_t *entry = etd_name_entry(tracer, name);
    return keeps_name(filter, entry + 1, entry[0]);
}

uint8_t etd_choose(const etd_tracer *tracer, const etd_open_scope *scope, const char *text) {
    const etd_event *event = &scope->event;
    if (tracer->profiling_level == ETD_PROFILE_METHOD_ONLY && event->chain != ETD_UNSET_CHAIN) {
        return ETD_BELOW_LEVEL;
    }
    return etd_passes_filter(tracer, event->name, text, scope->id) ? tracer->choice : (uint8_t)ETD_FILTERED;
}
