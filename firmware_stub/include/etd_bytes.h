// SPDX-License-Identifier: Apache-2.0
/* Read and write little-endian numbers at any alignment. memcpy compiles to one load or store on CPUs that
 * allow unaligned access, even with -Os. */
#ifndef ETD_BYTES_H
#define ETD_BYTES_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "this firmware requires a little-endian CPU"
#endif

#ifdef __cplusplus
extern "C" {
#endif

static inline void etd_put_u16(uint8_t *at, uint32_t value) {
    uint16_t half = (uint16_t)value;
    memcpy(at, &half, sizeof half);
}

static inline void etd_put_u32(uint8_t *at, uint32_t value) {
    memcpy(at, &value, sizeof value);
}

static inline uint16_t etd_get_u16(const uint8_t *at) {
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline uint32_t etd_get_u32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline uint64_t etd_get_u64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

#ifdef __cplusplus
}
#endif

#endif
