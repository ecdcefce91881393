// SPDX-License-Identifier: Apache-2.0
#include "etd_itm.h"

#include <stddef.h>
#include <string.h>

#include "etd_frame.h"

/* Armv7-M and Armv8-M Architecture Reference Manuals: ITM, and the register that powers it. */
#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define ITM_STIMULUS(port) REGISTER(0xE0000000u + 4u * (port))
#define ITM_TER REGISTER(0xE0000E00u)
#define ITM_TCR REGISTER(0xE0000E80u)
#define DEMCR REGISTER(0xE000EDFCu)
#define DEMCR_TRCENA (1u << 24)
#define ITM_TCR_ITMENA 1u
#define STIMULUS_FIFO_READY 1u

#define PIECE_WORDS 16u /* of the log at once, on the stack */

bool etd_itm_enabled(uint32_t port) {
    /* Without TRCENA the others must not be read. */
    return port < ETD_ITM_PORTS && (DEMCR & DEMCR_TRCENA) != 0 && (ITM_TCR & ITM_TCR_ITMENA) != 0 &&
           (ITM_TER >> port & 1u) != 0;
}

/* A word is one packet of five bytes on the pin. */
static bool put_word(const etd_tracer *tracer, uint32_t port, uint32_t patience, uint32_t word) {
    uint32_t start = etd_read_ticks(tracer);
    while ((ITM_STIMULUS(port) & STIMULUS_FIFO_READY) == 0) {
        if (etd_read_ticks(tracer) - start > patience) {
            return false;
        }
    }
    ITM_STIMULUS(port) = word;
    return true;
}

bool etd_itm_send_log(const etd_tracer *tracer, uint32_t port, uint32_t patience) {
    if (tracer == NULL || !etd_itm_enabled(port)) {
        return false;
    }
    uint32_t size = etd_log_size(tracer);
    uint32_t crc = 0;
    bool sent = true;
    for (uint32_t at = 0; sent && at < size;) {
        uint32_t words[PIECE_WORDS] = {0}; /* zeros fill the last word */
        uint32_t count = etd_log_read(tracer, at, words, sizeof words);
        crc = etd_crc32(crc, words, count);
        for (uint32_t i = 0; sent && i < (count + 3u) / 4u; i++) {
            sent = put_word(tracer, port, patience, words[i]);
        }
        at += count;
    }
    return sent && put_word(tracer, port, patience, crc);
}
