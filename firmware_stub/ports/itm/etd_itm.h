// SPDX-License-Identifier: Apache-2.0
/* Sends a log over the Instrumentation Trace Macrocell (ITM) of a Cortex-M3, M4, M7, M33, M55 or M85: its
 * trace leaves the chip by the SWO pin, and a debug probe records it while the core runs. Cortex-M0, M0+ and
 * M23 have none, and QEMU emulates none.
 *
 * The debugger enables the trace: DEMCR.TRCENA, ITM_TCR, ITM_TER, the pin and its rate. Needs
 * src/link/crc32.c beside the tracer. */
#ifndef ETD_ITM_H
#define ETD_ITM_H

#include <stdbool.h>
#include <stdint.h>

#include "etd_tracer.h"

#define ETD_ITM_PORTS 32u

/* Returns true if a debugger has enabled the trace of a stimulus port. */
bool etd_itm_enabled(uint32_t port);

/* Writes the image of a tracer's log and its CRC-32 to a stimulus port, for `etharness decode`. The tracer
 * must not log meanwhile, so call it between two runs, or in a fault handler.
 *
 * Waits up to `patience` ticks of the tracer's clock until the ITM takes a word. Returns false if it did not,
 * or if the port is not enabled; then the log can be sent again. After true, etd_log_recycle makes room for
 * the next part of the log. Contents of tensors are not sent. */
bool etd_itm_send_log(const etd_tracer *tracer, uint32_t port, uint32_t patience);

#endif
