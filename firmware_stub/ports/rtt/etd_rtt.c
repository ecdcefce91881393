// SPDX-License-Identifier: Apache-2.0
#include "etd_rtt.h"

#include <stddef.h>
#include <string.h>

#define ID_SIZE (sizeof((etd_rtt *)0)->id)
#define BLOCK_IF_FULL 2u /* mode of a ring: the board waits for room */

_Static_assert(sizeof(void *) != 4 || (offsetof(etd_rtt, up) == 24 && sizeof(etd_rtt) == 72),
               "hosts know this layout");

/* The id backwards, so that a host that searches memory does not find this constant. */
static const char reversed_id[] = "TTR REGGES";

void etd_rtt_init(etd_rtt *rtt, uint8_t *up, uint32_t up_size, uint8_t *down, uint32_t down_size) {
    memset(rtt, 0, sizeof *rtt);
    rtt->up_count = 1;
    rtt->down_count = 1;
    rtt->up = (etd_rtt_ring){.name = "etdump", .bytes = up, .size = up_size, .flags = BLOCK_IF_FULL};
    rtt->down = (etd_rtt_ring){.name = "etdump", .bytes = down, .size = down_size, .flags = BLOCK_IF_FULL};
    /* The id last, so that a host never finds a block that is half made. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    volatile char *id = rtt->id;
    const uint32_t length = (uint32_t)sizeof reversed_id - 1u;
    for (uint32_t i = 0; i < length; i++) {
        id[i] = reversed_id[length - 1u - i];
    }
}

uint32_t etd_rtt_read(etd_rtt *rtt, uint8_t *bytes, uint32_t size) {
    etd_rtt_ring *ring = &rtt->down;
    uint32_t at = ring->taken;
    uint32_t end = ring->put;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    uint32_t count = 0;
    while (count < size && at != end) {
        bytes[count++] = ring->bytes[at++];
        at = at == ring->size ? 0 : at;
    }
    __atomic_thread_fence(__ATOMIC_RELEASE); /* the host may overwrite only what has been copied */
    ring->taken = at;
    return count;
}

uint32_t etd_rtt_put(etd_rtt *rtt, const uint8_t *bytes, uint32_t size) {
    etd_rtt_ring *ring = &rtt->up;
    uint32_t at = ring->put;
    uint32_t end = ring->taken;
    uint32_t count = 0;
    while (count < size) {
        uint32_t next = at + 1u == ring->size ? 0 : at + 1u;
        if (next == end) {
            break;
        }
        ring->bytes[at] = bytes[count++];
        at = next;
    }
    __atomic_thread_fence(__ATOMIC_RELEASE); /* the host sees the bytes before their offset */
    ring->put = at;
    return count;
}

void etd_rtt_write(etd_rtt *rtt, const uint8_t *bytes, uint32_t size) {
    while (size > 0) {
        uint32_t count = etd_rtt_put(rtt, bytes, size);
        bytes += count;
        size -= count;
    }
}
