/* Numbers as .pte files store them, from any address. The CPU is little-endian, as all that this runtime
 * targets are: constants are used in place. */
#ifndef ET_LITTLE_ENDIAN_H
#define ET_LITTLE_ENDIAN_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the runtime needs a little-endian CPU"
#endif

static inline uint16_t et_load_u16(const uint8_t *bytes) {
    uint16_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static inline uint32_t et_load_u32(const uint8_t *bytes) {
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static inline uint64_t et_load_u64(const uint8_t *bytes) {
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

#endif
