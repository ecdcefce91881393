// SPDX-License-Identifier: Apache-2.0
/* The tracer's log as an ED00 file, which ExecuTorch's own tools read: for a device that saves to a card,
 * prints on a console or uses semihosting, without a host that knows the compact log.
 *
 * The file is computed in passes over the log and handed out piece by piece, front to back; it is never in
 * memory. It says what the host makes of the same log: allocations without their time and offset, no
 * failed ones, no counts of what was dropped or filtered. */
#ifndef ETD_ETDUMP_H
#define ETD_ETDUMP_H

#include "etd_tracer.h"

/* Takes the next `size` bytes (1 to a few hundred, or a delegate's metadata whole); false stops. */
typedef struct {
    bool (*write)(void *context, const void *bytes, uint32_t size);
    void *context;
} etd_etdump_sink;

/* Size in bytes of the file; 0 without a tracer. ExecuTorch's Inspector (1.5.1) refuses a file with any
 * allocation event, so a file meant for it leaves them out. */
uint32_t etd_etdump_size(const etd_tracer *tracer, bool allocations);

/* Writes the size-prefixed file. Returns false without a tracer, or when the sink stopped it. */
bool etd_etdump_write(const etd_tracer *tracer, bool allocations, const etd_etdump_sink *sink);

#endif
