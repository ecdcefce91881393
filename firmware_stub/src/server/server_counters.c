// SPDX-License-Identifier: Apache-2.0
/* COUNTERS, and the counters of a run. */
#include <string.h>

#include "server_internal.h"

_Static_assert(ETD_LINK_MAX_COUNTERS == ETD_LOG_COUNTERS, "a log has the counters of a run");

#define COUNTER_SIZE 3u /* in the answer, without the name */

etd_status etd_server_counters(etd_server *server, etd_request *request, etd_writer *answer,
                               etd_error *error) {
    (void)error;
    const etd_counter_source *source = server->config.port->counters;
    uint32_t count = source != NULL ? source->counter_count : 0u;
    etd_write_u8(answer, ETD_LINK_STATUS_OK);
    etd_write_u8(answer, count);
    etd_write_u8(answer, count > 0 ? source->selectable_count : 0u);
    etd_write_u8(answer, 0);
    for (uint32_t i = request->body[0]; i < count; i++) {
        const etd_counter *counter = &source->counters[i];
        uint32_t length = (uint32_t)strlen(counter->name);
        if (COUNTER_SIZE + length > answer->capacity - answer->size) {
            break; /* the host asks for the rest */
        }
        etd_write_u8(answer, counter->bits);
        etd_write_u8(answer, counter->selectable);
        etd_write_u8(answer, length);
        etd_write_bytes(answer, counter->name, length);
    }
    return ETD_LINK_STATUS_OK;
}

etd_status etd_server_check_counters(const etd_server *server, const uint8_t *indexes, uint32_t count,
                                     etd_error *error) {
    const etd_counter_source *source = server->config.port->counters;
    if (count == 0 || (source != NULL && etd_can_count(source, indexes, count))) {
        return ETD_LINK_STATUS_OK;
    }
    return etd_fail(error, ETD_LINK_STATUS_BAD_REQUEST, count, "these counters cannot count at once", NULL);
}

void etd_server_start_counting(etd_server *server) {
    const etd_server_config *config = &server->config;
    const etd_counter_source *source = config->port->counters;
    const etd_run *run = &server->run;
    if (run->counter_count > 0) {
        /* Without room for their names the log is full, which it says itself. */
        (void)source->start(&config->kept->tracer, source->counting, source, run->counters,
                            run->counter_count);
    }
}
