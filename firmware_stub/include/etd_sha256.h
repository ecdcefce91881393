// SPDX-License-Identifier: Apache-2.0
/* SHA-256 (FIPS 180-4), for proving that what arrived is what was sent. */
#ifndef ETD_SHA256_H
#define ETD_SHA256_H

#include <stdint.h>

#include "etd_link_wire.h"

typedef struct {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    uint8_t block[64];
} etd_sha256;

void etd_sha256_init(etd_sha256 *sha);
void etd_sha256_update(etd_sha256 *sha, const void *bytes, uint32_t size);
void etd_sha256_final(etd_sha256 *sha, uint8_t digest[ETD_LINK_DIGEST_SIZE]);

#endif
