// SPDX-License-Identifier: Apache-2.0
/* Writes the tracer's log as an ED00 file (ETDump), which ExecuTorch's tools read. For devices that save to a
 * card, print to a console or use semihosting, without a host that reads the compact log.
 *
 * The file is generated in several passes over the log and written front to back; it is never in memory as a
 * whole. It has the same contents as the host's conversion of the log: allocations without time and offset,
 * no failed allocations, no counts of dropped or filtered events. As with etd_log_read, nothing may be logged
 * meanwhile. */
#ifndef ETD_ETDUMP_H
#define ETD_ETDUMP_H

#include "etd_tracer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Output of etd_etdump_write. `write` receives the next `size` bytes of the file and returns false to stop.
 * Most parts have at most a few hundred bytes; a delegate's metadata is passed in one part. */
typedef struct {
    bool (*write)(void *context, const void *bytes, uint32_t size);
    void *context;
} etd_etdump_sink;

/* Returns the size of the file in bytes, or 0 if `tracer` is NULL. ExecuTorch's Inspector (1.5.1) rejects
 * files with allocation events; pass false for `allocations` to leave them out. */
uint32_t etd_etdump_size(const etd_tracer *tracer, bool allocations);

/* Writes the file with a size prefix. Returns false if `tracer` is NULL or the sink stopped. */
bool etd_etdump_write(const etd_tracer *tracer, bool allocations, const etd_etdump_sink *sink);

#if defined(ETD_OFF) && !defined(ETD_TRACER_SOURCE)
#include "etd_etdump_off.h"
#endif

#ifdef __cplusplus
}
#endif

#endif
