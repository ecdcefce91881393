/* Little-endian numbers in byte buffers of any alignment. Compilers turn each into one load or store where
 * the machine allows it. */
#ifndef ET_BYTES_H
#define ET_BYTES_H

#include <stdint.h>

static inline void et_put_u16(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static inline void et_put_u32(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
    at[2] = (uint8_t)(value >> 16);
    at[3] = (uint8_t)(value >> 24);
}

static inline uint16_t et_get_u16(const uint8_t *at) {
    return (uint16_t)(at[0] | at[1] << 8);
}

static inline uint32_t et_get_u32(const uint8_t *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

#endif
