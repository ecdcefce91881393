// SPDX-License-Identifier: Apache-2.0
/* SHA-256 (FIPS 180-4), for verifying transfers. Without global state.
 *
 * Use: etd_sha256_init, etd_sha256_update for each part, etd_sha256_final. */
#ifndef ETD_SHA256_H
#define ETD_SHA256_H

#include <stdint.h>

#include "etd_link_wire.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t state[8];
    uint64_t length; /* bytes hashed so far */
    uint8_t block[64];
} etd_sha256;

/* Starts a new digest. */
void etd_sha256_init(etd_sha256 *sha);
/* Adds `size` bytes. */
void etd_sha256_update(etd_sha256 *sha, const void *bytes, uint32_t size);
/* Writes the digest. `sha` must be initialized again before it is reused. */
void etd_sha256_final(etd_sha256 *sha, uint8_t digest[ETD_LINK_DIGEST_SIZE]);

#ifdef __cplusplus
}
#endif

#endif
