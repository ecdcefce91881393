/* The tracer's log as an ED00 file, which ExecuTorch's own tools read: for a device that saves to a card,
 * prints on a console or uses semihosting, without a host that knows the compact log.
 *
 * The file is computed in passes over the log and handed out piece by piece, front to back; it is never in
 * memory. It says what the host makes of the same log: allocations without their time and offset, no
 * failed ones, no counts of what was dropped or filtered. */
#ifndef ET_ETDUMP_H
#define ET_ETDUMP_H

#include "et_tracer.h"

/* Takes the next `size` bytes (1 to a few hundred, or a delegate's metadata whole); false stops. */
typedef struct {
    bool (*write)(void *context, const void *bytes, uint32_t size);
    void *context;
} et_etdump_sink;

/* Size in bytes of the file; 0 without a tracer. ExecuTorch's Inspector (1.5.1) refuses a file with any
 * allocation event, so a file meant for it leaves them out. */
uint32_t et_etdump_size(const et_tracer *tracer, bool allocations);

/* Writes the size-prefixed file. Returns false without a tracer, or when the sink stopped it. */
bool et_etdump_write(const et_tracer *tracer, bool allocations, const et_etdump_sink *sink);

#endif
